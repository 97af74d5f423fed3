"""Which columns fit, and how wide they are."""

from hypothesis import given
from hypothesis import strategies as st

from llmgate.tui.cells import Span, plain, width_of_line
from llmgate.tui.columns import WIDE, Column, Frame, table
from llmgate.tui.model import Model

FRAME = Frame(Model().view(0.0))


def column(title: str, width: int, rank: int, **more: object) -> Column[str]:
    return Column(title, width, lambda row, _frame: Span(row), rank, **more)  # type: ignore[arg-type]


COLUMNS = st.lists(
    st.builds(
        column,
        st.text("abc", max_size=6),
        st.integers(1, 12),
        st.integers(0, 5),
        gap=st.integers(0, 3),
        right=st.booleans(),
        wide=st.booleans(),
        most=st.integers(0, 30),
    ),
    max_size=8,
)


@given(COLUMNS, st.integers(0, 160), st.text("xyz界", max_size=50))
def test_a_row_never_leaves_its_line_and_stands_below_its_titles(
    columns: list[Column[str]], width: int, text: str
) -> None:
    laid = table(columns, width)
    titles, row = laid.titles(FRAME), laid.row(text, FRAME)
    assert width_of_line(titles) == width_of_line(row) <= width
    assert all(width >= WIDE or not one.wide for one, _ in laid.columns)
    assert all(cells <= max(one.width, one.most) for one, cells in laid.columns)


@given(COLUMNS, st.integers(0, 160))
def test_the_order_is_kept_and_nothing_that_fits_is_left_out(columns: list[Column[str]], width: int) -> None:
    laid = table(columns, width)
    kept = [one for one, _ in laid.columns]
    positions = [next(i for i, one in enumerate(columns) if one is kept_one) for kept_one in kept]
    assert positions == sorted(positions)
    free = width - sum(one.gap + one.width for one in kept)
    assert all(one.gap + one.width > free or one.wide for one in columns if one not in kept)


def test_who_has_the_lower_rank_grows_first() -> None:
    columns = [column("a", 3, 2, most=5), column("b", 3, 1, most=6)]
    assert [cells for _, cells in table(columns, 10).columns] == [3, 5]
    assert [cells for _, cells in table(columns, 12).columns] == [4, 6]
    assert [cells for _, cells in table(columns, 40).columns] == [5, 6]


def test_the_lowest_rank_is_kept_and_the_first_grows() -> None:
    columns = [column("late", 5, 2), column("first", 5, 0, right=False, most=7), column("next", 5, 1)]
    assert plain(table(columns, 14).titles(FRAME)) == " first    next"
    assert plain(table(columns, 20).titles(FRAME)) == "  late first    next"


def test_what_is_too_long_is_cut_with_a_sign() -> None:
    assert plain(table([column("x", 4, 0, gap=0)], 4).row("abcdef", FRAME)) == "abc…"
    assert plain(table([column("x", 4, 0, gap=0)], 4).row("abcdef", Frame(FRAME.view, ascii=True))) == "abc~"
