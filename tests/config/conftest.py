"""Root reads everything: what must fail for want of permission is read with another user's rights."""

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

NOBODY = 65534


@contextlib.contextmanager
def _as_nobody() -> Iterator[None]:
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(own)


@pytest.fixture
def as_nobody() -> Callable[[], AbstractContextManager[None]]:
    """`with as_nobody():` has the rights of a user who owns nothing, for root; any other user keeps its own."""
    return _as_nobody
