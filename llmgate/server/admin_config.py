"""The settings in force as the admin API shows them: each key with its value, its origin and its reload class."""

from collections.abc import Iterator, Mapping

from llmgate.adminapi import Config, ConfigValue
from llmgate.config.load import Loaded
from llmgate.config.problems import dotted
from llmgate.config.settings import Section, Settings
from llmgate.config.written import written


def view_config(loaded: Loaded, settings: Settings) -> Config:
    """`settings` are those in force; `loaded` knows where they came from."""
    return Config(file=str(loaded.path or ""), values=list(_values(loaded, settings)))


def _values(loaded: Loaded, settings: Settings) -> Iterator[ConfigValue]:
    shown = written(settings)
    for name in type(settings).model_fields:
        section = getattr(settings, name)
        if isinstance(section, Section):
            yield from _section(loaded, (name,), section, shown[name])
        else:
            for upstream, model in section.items():
                yield from _section(loaded, (name, upstream), model, shown[name][upstream])


def _section(
    loaded: Loaded, path: tuple[str, ...], model: Section, shown: Mapping[str, object]
) -> Iterator[ConfigValue]:
    for name, value in shown.items():
        key = (*path, name)
        origin = loaded.origins.place(key) if loaded.origins is not None else ""
        yield ConfigValue(key=dotted(key), value=value, origin=origin, reload=_reload_class(model, name))


def _reload_class(model: Section, name: str) -> str:
    extra = type(model).model_fields[name].json_schema_extra
    return str(extra["reload"]) if isinstance(extra, dict) and "reload" in extra else "restart"
