"""Connections against files: the process never comes to the last one."""

import pytest

from llmgate.core.capacity import (
    ADMIN_LEAST,
    ADMIN_MOST,
    METRICS_MOST,
    OWN_FILES,
    SURPLUS,
    admin_connections,
    client_connections,
    metrics_connections,
)


@pytest.mark.parametrize("files", [64, 128, 256, 1024, 4096, 20_000, 1 << 20])
def test_all_that_may_be_open_fits(files: int) -> None:
    clients = client_connections(1 << 30, files)
    assert OWN_FILES + 2 * SURPLUS + admin_connections(files) + 2 * clients <= files
    assert clients >= 10
    assert ADMIN_LEAST <= admin_connections(files) <= ADMIN_MOST


@pytest.mark.parametrize("files", [64, 128, 256, 1024, 4096, 20_000, 1 << 20])
def test_with_metrics_on_an_address_of_their_own_it_fits_as_well(files: int) -> None:
    """Their listener, their connections, and those that are told that there is no room."""
    clients = client_connections(1 << 30, files, metrics=True)
    others = OWN_FILES + 3 * SURPLUS + admin_connections(files) + 1 + metrics_connections(files)
    assert others + 2 * clients <= files
    assert clients >= 5
    assert ADMIN_LEAST <= metrics_connections(files) <= METRICS_MOST


def test_never_more_than_asked_for() -> None:
    assert client_connections(20, 1 << 20) == 20
    assert client_connections(20_000, None) == 20_000
    assert admin_connections(None) == ADMIN_MOST
    assert metrics_connections(None) == METRICS_MOST


def test_at_least_one_where_there_is_no_room_at_all() -> None:
    assert client_connections(20_000, 16) == 1
