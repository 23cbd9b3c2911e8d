"""Own the writing of a request under a view: what the view does not touch is the client's bytes."""

from collections.abc import Sequence

import msgspec

from .. import source, texts
from ..model import Conversation, Item
from ..rendering import Rendering
from ..source import Span
from .blocks import BLOCK, SIGNED
from .reading import Thinking

VALVE_BETA = "thinking-binding-controls-2026-08-01"
"""Value of the `anthropic-beta` header without which the valve is refused."""

_VALVE = b'{"prefix_mismatch_behavior":"drop_block"}'
"""https://platform.claude.com/docs/en/build-with-claude/preserved-thinking/prefix-checks"""

_THINKING = msgspec.json.Decoder(Thinking)


def render(conversation: Conversation, rendering: Rendering) -> bytes:
    """Put a request together under a view: what the view does not touch is the client's bytes."""
    body, places = conversation.body, conversation.places
    values: dict[Span, bytes] = {}
    if rendering.changes_items(len(conversation.items)):
        values[places["messages"]] = source.array(_messages(conversation, rendering))
    if rendering.valve and "thinking" in places:
        start, stop = places["thinking"]
        values[start, stop] = _valved(body[start:stop])
    if rendering.instruct and not conversation.instructed:
        block = msgspec.json.encode({"type": "text", "text": texts.STANDING_INSTRUCTION})
        if "system" not in places:
            return source.with_member(source.replaced(body, values), "system", source.array([block]))
        start, stop = places["system"]
        values[start, stop] = _appended(body[start:stop], source.readable(body[start:stop]), block)
    return source.replaced(body, values) if values else body


def _valved(thinking: bytes) -> bytes:
    """Return the `thinking` parameter with the provider's valve open, where reasoning is on and its fields allow it."""
    if not thinking.startswith(b"{") or _THINKING.decode(thinking).type not in ("adaptive", "enabled"):
        return thinking
    return source.with_member(source.without_member(thinking, "block_binding"), "block_binding", _VALVE)


def _appended(system: bytes, readable: bytes, block: bytes) -> bytes:
    """Return `system` as a list that ends with our block; a string becomes its first block."""
    if readable.startswith(b"["):
        return source.array([*(system[a:b] for a, b in source.elements(readable)), block])
    if readable in (b"null", b'""'):
        return source.array([block])
    return source.array([_text_block(system), block])


def _text_block(text: bytes) -> bytes:
    """Return a text block around a JSON string, its escapes as they are."""
    return b'{"type":"text","text":' + text + b"}"


def _messages(conversation: Conversation, rendering: Rendering) -> list[bytes]:
    items = conversation.items
    moved = [items[index].source for index in rendering.moved]
    written: list[bytes] = []
    placing = False
    for index in rendering.kept:
        text = _message(items[index], index, rendering)
        if placing and items[index].kind != "pinned":
            placing = False
            if items[index].kind == "system":
                text = _merged([*moved, text])
            else:
                written.append(_merged(moved))
        written.append(text)
        placing = placing or index == rendering.moved_after
    if placing:
        written.append(_merged(moved))
    return written


def _merged(messages: Sequence[bytes]) -> bytes:
    """Return system messages as one: the parts of all, and of each parameter beside them the last value."""
    parts = [part for message in messages for part in _parts_of(message)]
    text = _with_parts(messages[-1], parts)
    known = source.members(source.readable(text)).keys()
    for message in reversed(messages[:-1]):
        for key, (start, stop) in source.members(source.readable(message)).items():
            if key not in known:
                text = source.with_member(text, key, message[start:stop])
        known = source.members(source.readable(text)).keys()
    return text


def _message(item: Item, index: int, rendering: Rendering) -> bytes:
    """Return one message under a view."""
    text = item.source
    compressed = rendering.compressed.get(index)
    noted = index == rendering.noted and bool(rendering.note)
    stripped = index in rendering.stripped
    if not (compressed or noted or stripped):
        return text
    parts = _parts_of(text)
    if compressed:
        parts = [_compressed(part, compressed[i]) if i in compressed else part for i, part in enumerate(parts)]
    if stripped:
        parts = [part for part in parts if BLOCK.decode(source.readable(part)).type not in SIGNED]
    if index in rendering.emptied:
        parts = [msgspec.json.encode({"type": "text", "text": texts.NO_TEXT})]
    if noted:
        parts = [msgspec.json.encode({"type": "text", "text": rendering.note}), *parts]
    return _with_parts(text, parts)


def _parts_of(message: bytes) -> list[bytes]:
    """Return the source of each content block; a string is one text block."""
    readable = source.readable(message)
    start, stop = source.members(readable)["content"]
    if readable[start:stop].startswith(b"["):
        return [message[start + a : start + b] for a, b in source.elements(readable[start:stop])]
    return [_text_block(message[start:stop])]


def _with_parts(message: bytes, parts: list[bytes]) -> bytes:
    place = source.members(source.readable(message))["content"]
    return source.replaced(message, {place: source.array(parts)})


def _compressed(part: bytes, form: str) -> bytes:
    """Return a tool result block that holds the compressed form, in the shape its content had."""
    readable = source.readable(part)
    start, stop = source.members(readable)["content"]
    value = msgspec.json.encode(form)
    if readable[start:stop].startswith(b"["):
        inner = [part[start + a : start + b] for a, b in source.elements(readable[start:stop])]
        last = source.readable(inner[-1])
        value = source.array([source.replaced(inner[-1], {source.members(last)["text"]: value})])
    return source.replaced(part, {(start, stop): value})
