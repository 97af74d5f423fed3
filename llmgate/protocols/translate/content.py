"""Content blocks of an Anthropic request, as the parts of an OpenAI message.

    text                              text
    image: base64, url                image_url: a data URI, the URL
    document: text, content of texts  text, its title and context before it
    search_result                     text: title, source and what was found
    tool_reference (in a result)      text: the tool's name

Any other is refused: what the model would not see must not be dropped in silence.
"""

from typing import Any

import msgspec

from llmgate.errors import BadRequest
from llmgate.protocols.decoding import NULL
from llmgate.protocols.translate.complaint import complaint


class Block(msgspec.Struct, kw_only=True):
    """Any content block. Texts are strings; where the JSON may be anything it is kept as it came."""

    type: str
    text: str = ""
    source: Any = None
    title: str | None = None
    context: str | None = None
    content: msgspec.Raw = NULL
    id: str = ""
    name: str = ""
    input: msgspec.Raw = NULL
    tool_use_id: str = ""
    tool_name: str = ""
    is_error: bool | None = None
    thinking: str = ""


class Text(msgspec.Struct, frozen=True, tag_field="type", tag="text"):
    """A part."""

    text: str


class ImageUrl(msgspec.Struct, frozen=True):
    """Where an image is: an URL or a data URI."""

    url: str


class Image(msgspec.Struct, frozen=True, tag_field="type", tag="image_url"):
    """A part."""

    image_url: ImageUrl


Part = Text | Image

_CONTENT = msgspec.json.Decoder(str | list[Block] | None)


def read_content(raw: msgspec.Raw) -> list[Block]:
    """Content that is a string, a list of blocks, or missing; raises BadRequest for any other."""
    try:
        content = _CONTENT.decode(raw)
    except msgspec.ValidationError as error:
        raise BadRequest(f"llmgate: {complaint(str(error), 'the content')} (BAD_REQUEST)") from None
    if isinstance(content, str):
        return [Block(type="text", text=content)]
    return content or []


def part_of(block: Block) -> Part:
    """Raises BadRequest for a block that has no such part."""
    match block.type:
        case "text":
            return Text(block.text)
        case "image":
            return _image(block.source)
        case "document":
            return Text(_joined(block.title, block.context, _document(block.source)))
        case "search_result":
            return Text(_joined(block.title, _source(block.source), _texts(block.content)))
        case "tool_reference":
            return Text(block.tool_name)
    raise refused(f"content of type {shown(block.type)}")


def refused(what: str) -> BadRequest:
    """What the upstream's protocol cannot express."""
    return BadRequest(f"llmgate: {what} cannot be sent to this upstream, which speaks OpenAI's protocol (BAD_REQUEST)")


def shown(text: str) -> str:
    """A foreign word in a message of ours."""
    return repr(text[:64])


def _image(source: Any) -> Image:
    match source:
        case {"type": "base64", "media_type": str(kind), "data": str(data)} if kind and data:
            return Image(ImageUrl(f"data:{kind};base64,{data}"))
        case {"type": "url", "url": str(url)} if url:
            return Image(ImageUrl(url))
    raise refused("an image whose source is neither base64 nor a URL")


def _document(source: Any) -> str:
    match source:
        case {"type": "text", "data": str(text)} | {"type": "content", "content": str(text)}:
            return text
        case {"type": "content", "content": [*parts]}:
            return "\n".join(map(_text_of, parts))
    raise refused("a document that is not text")


def _text_of(part: Any) -> str:
    match part:
        case {"type": "text", "text": str(text)}:
            return text
    raise refused("a document that is not text")


def _source(source: Any) -> str | None:
    return source if isinstance(source, str) else None


def _texts(content: msgspec.Raw) -> str:
    return "\n".join(block.text for block in read_content(content))


def _joined(*texts: str | None) -> str:
    return "\n\n".join(text for text in texts if text)
