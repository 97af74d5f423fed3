"""The widget that shows lines as they are."""

from textual.app import App, ComposeResult
from textual.geometry import Region

from llmgate.tui.cells import Span, standing_for
from llmgate.tui.themes import DEFAULT
from llmgate.tui.widgets.canvas import Canvas


class Shown(App[None]):
    def __init__(self) -> None:
        super().__init__(ansi_color=True)
        self.canvas = Canvas()

    def compose(self) -> ComposeResult:
        yield self.canvas


async def test_markup_and_wide_characters_are_shown_as_they_are() -> None:
    app = Shown()
    async with app.run_test(size=(20, 3)):
        app.canvas.show([[Span("[bold]x[/]", "bad"), Span("界")], []])
        first, second, third = (app.canvas.render_line(y) for y in range(3))
        assert first.text == "[bold]x[/]界        "
        assert next(iter(first)).style == app.canvas.rich_style + DEFAULT["bad"]
        assert second.text == third.text == " " * 20


async def test_what_a_line_stands_for_is_known() -> None:
    canvas = Canvas()
    canvas._lines = [[Span("title")], standing_for([Span("row")], "events", "7")]
    assert [canvas.row_at(y) for y in (-1, 0, 1, 2)] == [None, None, ("events", "7"), None]


async def test_only_changed_lines_are_drawn_again(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    app = Shown()
    async with app.run_test(size=(20, 3)):
        app.canvas.show([[Span("a")], [Span("b")], [Span("c")]])
        drawn: list[tuple[object, ...]] = []
        monkeypatch.setattr(app.canvas, "refresh", lambda *regions: drawn.append(regions))
        app.canvas.show([[Span("a")], [Span("B")], [Span("c", "bold")]])
        assert drawn == [(Region(0, 1, 20, 1),), (Region(0, 2, 20, 1),)]
        app.canvas.show([[Span("a")]])
        assert drawn[2:] == [()]
        app.canvas.show([[Span("a")]], "mono")
        assert drawn[3:] == [()]
