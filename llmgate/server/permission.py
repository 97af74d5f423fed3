"""What a request that came in may do with its key: which models it may ask for, and how many requests at once."""

from collections.abc import Iterator
from contextlib import contextmanager

from llmgate.core.access import Access
from llmgate.core.routing import Route
from llmgate.errors import KeyLimit, ModelNotAllowed, NotAllowed, UnknownModel
from llmgate.server.services import Services


def find_route(services: Services, access: Access, model: str, upstream: str = "") -> Route:
    """The route of a model; with `upstream` it leads there whatever the model. Raises UnknownModel, ModelNotAllowed.

    A key that may not use every model does not learn which others there are, and gets its models where they are: the
    server of another upstream may take every name for its own model.
    """
    key = access.key
    if key is None or not key.models:
        return Route(upstream, model) if upstream else services.routes.find(model)
    try:
        found = services.routes.find(model)
        route = found if upstream in ("", found.upstream) else None
    except UnknownModel:
        route = None
    if route is not None and upstream:
        route = Route(upstream, model)  # as it is written, whatever else it may be an alias of
    if route is None or not key.may_use(model, route.model):
        error = ModelNotAllowed(
            f"llmgate: this key may not use the model {model!r}, or there is none; it may use "
            f"{', '.join(key.models)} (MODEL_NOT_ALLOWED)"
        )
        services.turned_away.note(error, f"a request with key={key.name} for another model", key.name)
        raise error
    return route


def check_unrestricted(services: Services, access: Access) -> None:
    """Raises NotAllowed for a key that may use some models only: of what is passed on as it is nobody knows which
    model works for it."""
    key = access.key
    if key is not None and key.models:
        error = NotAllowed(
            "llmgate: this key may use some models only, so nothing is passed on for it but requests that name one "
            "(NOT_ALLOWED)"
        )
        services.turned_away.note(error, f"a request with key={key.name} under /upstream/", key.name)
        raise error


@contextmanager
def counted(services: Services, access: Access) -> Iterator[None]:
    """Counts one request of its key while it is inside. Raises KeyLimit before."""
    key = access.key
    if key is None:
        yield
        return
    try:
        services.key_counts.enter(key)
    except KeyLimit as error:
        services.turned_away.note(error, f"a request with key={key.name}, which has as many as it may", key.name)
        raise
    try:
        yield
    finally:
        services.key_counts.leave(key.name)
