"""Own the writing of a request under a view: what the view does not touch is the client's bytes."""

from itertools import chain

import msgspec

from .. import source, texts
from ..model import Conversation, Item
from ..rendering import Rendering
from ..source import Span
from .items import ITEM


def render(conversation: Conversation, rendering: Rendering) -> bytes:
    """Put a request together under a view: what the view does not touch is the client's bytes."""
    body, places = conversation.body, conversation.places
    values: dict[Span, bytes] = {}
    if rendering.changes_items(len(conversation.items)):
        written = (_written(conversation.items[index], index, rendering) for index in rendering.kept)
        values[places["input"]] = source.array(list(chain.from_iterable(written)))
    if not rendering.instruct or conversation.instructed:
        return source.replaced(body, values) if values else body
    if "instructions" not in places:
        told = msgspec.json.encode(texts.STANDING_INSTRUCTION)
        return source.with_member(source.replaced(body, values), "instructions", told)
    start, stop = places["instructions"]
    if body[start:stop] in (b"null", b'""'):
        values[start, stop] = msgspec.json.encode(texts.STANDING_INSTRUCTION)
    else:
        values[start, stop] = source.suffixed(body[start:stop], "\n\n" + texts.STANDING_INSTRUCTION)
    return source.replaced(body, values)


def _written(item: Item, index: int, rendering: Rendering) -> tuple[bytes, ...]:
    """Return what stands for an item: itself, and before another agent's message the note as one of its own.

    A message between agents has an author, and parts that only the provider can read: nothing is put into it.
    """
    text = item.source
    if text.startswith(b'"'):  # the whole input is one string
        text = b'{"type":"message","role":"user","content":' + text + b"}"
    if index in rendering.compressed:
        text = _replaced(text, "output", rendering.compressed[index][0])
    if index != rendering.noted or not rendering.note:
        return (text,)
    if ITEM.decode(source.readable(text)).type == "agent_message":
        return (b'{"type":"message","role":"user","content":[' + _part(rendering.note) + b"]}", text)
    return (_noted(text, rendering.note),)


def _replaced(item: bytes, key: str, form: str) -> bytes:
    """Return an output item that says `form`, in the shape its output had."""
    readable = source.readable(item)
    start, stop = source.members(readable)[key]
    value = msgspec.json.encode(form)
    if readable[start:stop].startswith(b"["):
        value = source.array([b'{"type":"input_text","text":' + value + b"}"])
    return source.replaced(item, {(start, stop): value})


def _noted(item: bytes, note: str) -> bytes:
    """Return a user message whose content, a list, opens with the note."""
    readable = source.readable(item)
    start, stop = source.members(readable)["content"]
    parts = [b'{"type":"input_text","text":' + item[start:stop] + b"}"]
    if readable[start:stop].startswith(b"["):
        parts = [item[start + a : start + b] for a, b in source.elements(readable[start:stop])]
    return source.replaced(item, {(start, stop): source.array([_part(note), *parts])})


def _part(text: str) -> bytes:
    return msgspec.json.encode({"type": "input_text", "text": text})
