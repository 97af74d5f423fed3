"""Reads the settings again, as one transaction: all is read and checked, then it is in force; or nothing has changed.

Keys, certificates and files of secrets are read with them. What only a new start takes on is told and left as it was,
again at every reload until that start.
"""

import asyncio
import contextlib
import dataclasses
import logging
import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Mapping

from llmgate.adminapi import ConfigChange, Reloaded
from llmgate.adminclient.limits import limit_text
from llmgate.config.certificate import Certificate
from llmgate.config.checks import find_problems
from llmgate.config.frozen import FrozenDict
from llmgate.config.load import Loaded
from llmgate.config.problems import Problem
from llmgate.config.reload import Change, Secrets, differences, in_force, secret_differences
from llmgate.config.settings import Settings
from llmgate.core import fate
from llmgate.core.events import GateStatistics
from llmgate.errors import OWN_FAULT, SettingsError
from llmgate.fleet import make_contexts
from llmgate.roster import Roster

logger = logging.getLogger("llmgate")


READ_SECONDS = 30.0
"""They are a few small files; but they may lie on a disk that does not answer."""


_STAYS = (
    "upstreams.{name}.{key} stays {now}, as an operator set it; the settings say {said}. To take that: "
    "llmgate set {name} {key}={value}"
)


Read = tuple[Loaded, Mapping[str, ssl.SSLContext]]
"""Settings, and what checks the certificates of their servers: see fleet.make_contexts."""

STOPPING = "llmgate: llmgate is stopping, its settings are not read again"


class Reloader:
    """Of one daemon; `loaded` is what it was started with."""

    def __init__(
        self,
        loaded: Loaded,
        read: Callable[[], Loaded],
        roster: Roster,
        on_applied: Callable[[Loaded], None],
        find: Callable[[Settings], list[Problem]] = find_problems,
    ) -> None:
        """`read` gives the settings as they are now, or raises SettingsError; `on_applied` is told those that are in
        force, once the upstreams are; `find` says what may not be."""
        self._loaded = loaded
        self._read = read
        self._roster = roster
        self._on_applied = on_applied
        self._find = find
        self._turn = asyncio.Lock()
        self._reading: asyncio.Future[Read] | None = None
        self._stopped = False

    def stop(self) -> None:
        """No settings are taken on any more. Whoever waits for them to be read hears that at once, since the admin
        socket will not wait for a disk."""
        self._stopped = True
        if self._reading is not None and not self._reading.done():
            self._reading.set_exception(SettingsError(STOPPING))

    async def reload(self) -> Reloaded:
        """One at a time; raises nothing."""
        async with self._turn:
            try:
                new, contexts = await self._read_in_time()
                changes, fates = self._apply(new, contexts)
            except SettingsError as error:
                return self._refuse(str(error))
            except TimeoutError:
                return self._refuse("llmgate: the settings could not be read in time: does their disk answer?")
            except OSError as error:
                return self._refuse(f"llmgate: {error}")
            except Exception as error:
                logger.exception("the settings could not be read again")
                return self._refuse(f"llmgate: {OWN_FAULT}: {type(error).__name__}")
        warnings = [warning.removeprefix("llmgate: ") for warning in new.warnings]
        warnings += self._overridden()
        for warning in warnings:
            logger.warning("%s", warning)
        for told in (*changes, *fates):
            logger.info("reload: %s", told)
        changed = [ConfigChange(key=it.key, old=it.old, new=it.new, reload=it.reload) for it in changes]
        return Reloaded(changed=changed, warnings=warnings, fates=fates)

    async def note_written(self, upstream: str, keys: Collection[str]) -> None:
        """An operator wrote these limits of that upstream into the settings, and they are in force: no reload finds
        anything new in them. What else is new there waits for one. Settings that cannot be read are a reload's to
        tell."""
        async with self._turn:
            try:
                new, _ = await self._read_in_time()
            except Exception:
                logger.warning("what was written of upstream %s could not be read: see llmgate reload", upstream)
                return
            written, known = new.settings.upstreams.get(upstream), self._loaded.settings.upstreams.get(upstream)
            if written is None or known is None:
                return
            limits = known.model_copy(update={key: getattr(written, key) for key in keys})
            self._roster.note_written(upstream, limits)
            upstreams = FrozenDict({**self._loaded.settings.upstreams, upstream: limits})
            settings = self._loaded.settings.model_copy(update={"upstreams": upstreams})
            origins = new.origins
            if settings != new.settings and origins is not None and self._loaded.origins is not None:
                origins = self._loaded.origins.taking(origins, [("upstreams", upstream, key) for key in keys])
            self._loaded = dataclasses.replace(self._loaded, settings=settings, origins=origins)
            self._on_applied(self._loaded)

    def _overridden(self) -> Iterator[str]:
        """What an operator set, and what brings back what the settings say."""
        for name, key, now, said in self._roster.overridden:
            is_auto = key == "max_concurrent" and self._loaded.settings.upstreams[name].max_concurrent == "auto"
            follows = key == "max_concurrent" and self._roster.discovery.follows(name)
            yield _STAYS.format(
                name=name,
                key=key,
                now=_in_words(key, now, is_auto=follows),
                said=_in_words(key, said, is_auto=is_auto),
                value="auto" if is_auto else said if key == "max_concurrent" else limit_text(key, said),
            )

    async def _read_in_time(self) -> Read:
        """What is in the settings now. Raises what reading them does, and TimeoutError."""
        self._check_goes_on()
        self._reading = asyncio.get_running_loop().create_future()
        _read_aside(self._read, self._reading)
        async with asyncio.timeout(READ_SECONDS):
            read = await self._reading
        self._check_goes_on()
        return read

    def _check_goes_on(self) -> None:
        if self._stopped:
            raise SettingsError(STOPPING)

    def _apply(self, new: Loaded, contexts: Mapping[str, ssl.SSLContext]) -> tuple[list[Change], list[str]]:
        if not new.settings.upstreams:
            raise SettingsError("llmgate: no upstream is given, so there is nothing to stand in front of")
        old = self._loaded
        settings = in_force(old.settings, new.settings)
        if problems := self._find(settings):
            told = "".join(f"\nllmgate: {problem}" for problem in problems)
            raise SettingsError(f"llmgate: together with what only a new start changes, this may not be:{told}")
        plan = self._roster.prepare(settings, new.api_keys, contexts)
        were_named = {name: was for name, was in plan.renamed.items() if was in old.settings.upstreams}
        changes = differences(old.settings, new.settings, were_named)
        changes += secret_differences(_secrets(old), _secrets(new), {change.key for change in changes})
        before = {name: self._gate(name) for name in old.settings.upstreams}
        self._roster.apply(plan)
        fates = [fate.renamed(was, name, self._gate(name)) for name, was in plan.renamed.items()]
        gone = before.keys() - plan.named - set(plan.renamed.values())
        fates += [fate.dropped(name, before[name], self._gate(name)) for name in gone]
        fates += _renewed(old.certificate, new.certificate)
        self._loaded = Loaded(settings, new.path, new.warnings, new.api_keys, new.keys, new.certificate, new.origins)
        self._on_applied(self._loaded)
        return changes, sorted(fates)

    def _gate(self, upstream: str) -> GateStatistics:
        return self._roster.admission.gate(upstream).statistics()

    @staticmethod
    def _refuse(error: str) -> Reloaded:
        for line in error.split("\n"):
            logger.error("%s", line.removeprefix("llmgate: "))
        logger.error("the settings stay as they were")
        return Reloaded(error=error)


def _renewed(old: Certificate | None, new: Certificate | None) -> Iterator[str]:
    """Which certificate it is that clients are shown from now on: that of before is often for the same names."""
    if new is not None and (old is None or old.digest != new.digest):
        names = f" for {', '.join(new.names)}" if new.names else ""
        until = f", until {new.expires:%Y-%m-%d}" if new.expires is not None else ""
        yield f"new connections are shown {'a' if old is None else 'another'} certificate{names}{until}"


def _secrets(loaded: Loaded) -> Secrets:
    """Every key by where it stands in the settings."""
    of_upstreams: Secrets = {
        ("upstreams", name, _key_setting(loaded.settings, name)): key for name, key in loaded.api_keys.items()
    }
    shown: Secrets = {("server", "tls_cert"): loaded.certificate.digest} if loaded.certificate is not None else {}
    return {**of_upstreams, **shown, **{("keys", key.name): key for key in loaded.keys}}


def _key_setting(settings: Settings, upstream: str) -> str:
    return "api_key_env" if settings.upstreams[upstream].api_key_env else "api_key_file"


def _in_words(key: str, limit: float | None, *, is_auto: bool) -> str:
    return f"auto ({limit_text(key, limit)} now)" if is_auto else limit_text(key, limit)


def _read_aside(read: Callable[[], Loaded], found: "asyncio.Future[Read]") -> None:
    """Puts there what `read` gives or raises, with the certificates that it names. It runs in a thread that nobody
    waits for at the end, since it may never end."""
    loop = found.get_loop()

    def tell(result: Read | None, error: Exception | None) -> None:
        if found.done():
            return
        if result is not None:
            found.set_result(result)
        elif error is not None:
            found.set_exception(error)

    def work() -> None:
        result, error = None, None
        try:
            loaded = read()
            result = loaded, make_contexts(loaded.settings)
        except Exception as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=work, name="reload", daemon=True).start()
