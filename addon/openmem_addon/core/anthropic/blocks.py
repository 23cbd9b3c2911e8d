"""Own the content blocks of a message: what each says, weighs and loads, and the text that stands for it in a row."""

from collections.abc import Sequence

import msgspec

from .. import media, source
from ..described import described, without_mark
from ..source import ABSENT, present

SIGNED = ("thinking", "redacted_thinking")

SERVER_USES = ("server_tool_use", "mcp_tool_use")

_TEXTUAL = ("search_result", "compaction")
"""Blocks that hold a text, or parts, under `content`."""

_FOUND_BLOCKS = ("search_result", "web_search_result")
"""Blocks whose title and address the model reads."""


class _Source(msgspec.Struct):
    type: str = ""
    media_type: str = ""
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    content: msgspec.Raw = ABSENT


class Block(msgspec.Struct):
    """The fields we read of any content block; the rest stays in its source."""

    type: str
    text: str = ""
    thinking: str = ""
    id: str = ""
    name: str = ""
    tool_use_id: str = ""
    tool_name: str = ""
    title: str | None = None
    url: str | None = None
    input: msgspec.Raw = ABSENT
    content: msgspec.Raw = ABSENT
    source: msgspec.Raw = ABSENT
    cache_control: msgspec.Raw = ABSENT


class _Found(msgspec.Struct):
    """What the provider's own tool search answers with."""

    tool_references: list[msgspec.Raw] = []


BLOCK = msgspec.json.Decoder(Block)

_CONTENT = msgspec.json.Decoder(str | list[msgspec.Raw])

_SOURCE = msgspec.json.Decoder(_Source)

_FOUND = msgspec.json.Decoder(_Found)


def decoded(content: str | list[msgspec.Raw]) -> tuple[list[Block], list[bytes]]:
    if isinstance(content, str):
        return [Block("text", text=content)], [b""]
    return [BLOCK.decode(raw) for raw in content], [bytes(raw) for raw in content]


def markers(blocks: Sequence[Block]) -> list[bytes]:
    """Return the source of a message's cache markers, those on the parts of a tool result included."""
    inner = (
        BLOCK.decode(raw)
        for block in blocks
        if block.type == "tool_result" and b"cache_control" in bytes(block.content)
        for raw in _parts(block.content)
    )
    return [bytes(one.cache_control) for one in (*blocks, *inner) if present(one.cache_control)]


def is_server(kind: str) -> bool:
    return kind in SERVER_USES or (kind.endswith("_tool_result") and kind != "tool_result")


def is_whole_reply(blocks: Sequence[Block]) -> bool:
    """Return whether an agent's message calls no tool and answers no server tool of a message before it.

    A paused turn is resumed in a second message: its result may not go out without the use in the first.
    """
    used = {block.id for block in blocks if block.type in SERVER_USES}
    return not any(
        block.type == "tool_use" or (block.type.endswith("_tool_result") and block.tool_use_id not in used)
        for block in blocks
    )


def loads(block: Block) -> list[str]:
    """Return the tools a result loads: the client's own search answers with parts, the provider's with an object."""
    if not block.type.endswith("tool_result") or b"tool_reference" not in bytes(block.content):
        return []
    raws = _parts(block.content)
    if _content(block.content) is None:
        raws = _FOUND.decode(block.content).tool_references
    parts = [BLOCK.decode(raw) for raw in raws]
    return [part.tool_name for part in parts if part.type == "tool_reference"]


def content_text(content: msgspec.Raw) -> str:
    value = _content(content)
    if value is None:
        return source.compact(bytes(content))
    if isinstance(value, str):
        return value
    parts = [(BLOCK.decode(raw), bytes(raw)) for raw in value]
    return "\n".join(part.text if part.type == "text" else row_text(part, raw) for part, raw in parts)


def is_compressible(block: Block) -> bool:
    """Return whether a tool result is text alone: nothing else may be quoted or replaced."""
    value = _content(block.content)
    return isinstance(value, str) or (value is not None and all(BLOCK.decode(raw).type == "text" for raw in value))


def row_text(block: Block, raw: bytes) -> str:
    """Return a part that is no text: its type, size and hash, under what it is called and where it is from.

    The text that a part holds inside stands for the part.
    """
    where = _SOURCE.decode(block.source) if bytes(block.source)[:1] == b"{" else _Source()  # or an address
    if where.type == "text" and where.data is not None:
        return where.data
    inside = ""
    if where.type == "content" or block.type in _TEXTUAL:
        inside = content_text(where.content if where.type == "content" else block.content)
    given = where.data or where.url or where.file_id
    inside = inside or described(block.type, where.media_type, given.encode() if given else without_mark(raw))
    return "\n".join([*_heading(block), inside])


def _heading(block: Block) -> list[str]:
    """Return title and address of a block that something was found by."""
    if block.type not in _FOUND_BLOCKS:
        return []
    address = block.url
    if bytes(block.source)[:1] == b'"':
        address = msgspec.json.decode(block.source, type=str)
    return [words for words in (block.title, address) if words]


def media_tokens(block: Block) -> int:
    if block.type == "tool_result":
        return sum(media_tokens(BLOCK.decode(raw)) for raw in _parts(block.content))
    if block.type not in ("image", "document") or not present(block.source):
        return 0
    where = _SOURCE.decode(block.source)
    if block.type == "image":
        return media.image_tokens(where.data)
    return 0 if where.type in ("text", "content") else media.document_tokens(where.data)


def _parts(content: msgspec.Raw) -> list[msgspec.Raw]:
    """Return the parts of a content; a string, an object or nothing has none."""
    value = _content(content)
    return value if isinstance(value, list) else []


def _content(content: msgspec.Raw) -> str | list[msgspec.Raw] | None:
    """Return a tool result's content, None for an object, which some server tools answer with."""
    if not present(content):
        return ""
    return None if bytes(content)[:1] == b"{" else _CONTENT.decode(content)
