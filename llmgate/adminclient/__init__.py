"""Typed calls over the daemon's admin socket, with errors that tell a person what to do next.

httpx is imported by the first call, not with this package: `llmgate --help` must not pay for it.
"""

from llmgate.adminclient.client import AdminClient, AsyncAdminClient, find_socket
from llmgate.adminclient.watch import FeedParser, Watch

__all__ = ["AdminClient", "AsyncAdminClient", "FeedParser", "Watch", "find_socket"]
