"""Which way a request takes, from what the server speaks."""

from llmgate.errors import NotFound
from llmgate.protocols.speech import CHAT_PATH, MESSAGES_PATH, Speech
from llmgate.protocols.surface import ModelRequest, Surface
from llmgate.protocols.translate.request import Options
from llmgate.protocols.translate.way import Translated
from llmgate.protocols.way import Direct, Way


def way_of(
    surface: Surface, path: str, request: ModelRequest, speech: Speech, options: Options, request_id: str
) -> Way:
    """`path` is the surface's own; `options.model` is the model that the server is asked for.

    Raises NotFound where the server does not speak the surface and nothing is translated, BadRequest where a
    translation cannot say what the request asks.
    """
    if speech.speaks(path) is not False:
        return Direct(surface, path, request, options.model, request_id)
    if path == MESSAGES_PATH and speech.speaks(CHAT_PATH) is not False:
        return Translated(request.body, options, request_id)
    raise NotFound(f"llmgate: the server of this model does not speak {path}, see its documentation (NOT_FOUND)")


def may_be_learnt(path: str, speech: Speech) -> bool:
    """Whether an answer that says "no such path" (see speech) means that the request must be translated instead.

    `path` is the one that was asked for. Another request may have learnt it meanwhile.
    """
    return path == MESSAGES_PATH and speech.speaks(CHAT_PATH) is not False
