"""On the path of a daemon under test: its time of day goes wrong by the seconds that a file says, at any moment."""

import datetime as dt
import os
import time
from pathlib import Path

_FILE = Path(os.environ["LLMGATE_TEST_SHIFT"])
_true_time, _true_datetime = time.time, dt.datetime


def _shift() -> float:
    return float(_FILE.read_text() or 0)


class _ShiftedDatetime(_true_datetime):
    @classmethod
    def now(cls, tz: dt.tzinfo | None = None) -> "_ShiftedDatetime":
        return super().now(tz) + dt.timedelta(seconds=_shift())


time.time = lambda: _true_time() + _shift()
dt.datetime = _ShiftedDatetime  # type: ignore[misc]
