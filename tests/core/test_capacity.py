"""Connections against files: the process never comes to the last one."""

import pytest

from llmgate.core.capacity import ADMIN_LEAST, ADMIN_MOST, OWN_FILES, SURPLUS, admin_connections, client_connections


@pytest.mark.parametrize("files", [64, 128, 256, 1024, 4096, 20_000, 1 << 20])
def test_all_that_may_be_open_fits(files: int) -> None:
    clients = client_connections(1 << 30, files)
    assert OWN_FILES + 2 * SURPLUS + admin_connections(files) + 2 * clients <= files
    assert clients >= 10
    assert ADMIN_LEAST <= admin_connections(files) <= ADMIN_MOST


def test_never_more_than_asked_for() -> None:
    assert client_connections(20, 1 << 20) == 20
    assert client_connections(20_000, None) == 20_000
    assert admin_connections(None) == ADMIN_MOST


def test_at_least_one_where_there_is_no_room_at_all() -> None:
    assert client_connections(20_000, 16) == 1
