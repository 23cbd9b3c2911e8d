"""Own the writing of a request under a view: what the view does not touch is the client's bytes."""

import msgspec

from .. import source, texts
from ..model import Conversation, Item
from ..rendering import Rendering
from ..source import Span
from .reading import leading

_SIGNED = "thinking_blocks"
"""A gateway's field for Anthropic's signed blocks; `reasoning_content` is unsigned text and stays."""


def render(conversation: Conversation, rendering: Rendering) -> bytes:
    """Put a request together under a view: what the view does not touch is the client's bytes."""
    items = conversation.items
    instruct = rendering.instruct and not conversation.instructed
    if not instruct and not rendering.changes_items(len(items)):
        return conversation.body
    written = [_message(items[index], index, rendering) for index in rendering.kept]
    if instruct:
        place = leading([items[index] for index in rendering.kept])
        written.insert(place, msgspec.json.encode({"role": "system", "content": texts.STANDING_INSTRUCTION}))
    return source.replaced(conversation.body, {conversation.places["messages"]: source.array(written)})


def _message(item: Item, index: int, rendering: Rendering) -> bytes:
    text = item.source
    if index in rendering.compressed:
        text = _with_text(text, rendering.compressed[index][0])
    if index in rendering.stripped:
        text = source.without_member(text, _SIGNED)
    if index == rendering.noted and rendering.note:
        text = _noted(text, rendering.note)
    return text


def _content(message: bytes) -> tuple[Span, bytes]:
    """Return where a message's content stands, and its readable source."""
    readable = source.readable(message)
    start, stop = source.members(readable)["content"]
    return (start, stop), readable[start:stop]


def _with_text(message: bytes, form: str) -> bytes:
    """Return a tool message that says `form`, in the shape its content had."""
    place, content = _content(message)
    value = msgspec.json.encode(form)
    if content.startswith(b"["):
        start, stop = source.elements(content)[-1]  # the last part may carry a cache marker
        last = message[place[0] + start : place[0] + stop]
        value = source.array([source.replaced(last, {source.members(content[start:stop])["text"]: value})])
    return source.replaced(message, {place: value})


def _noted(message: bytes, note: str) -> bytes:
    """Return a user message that opens with the note: a string stays a string, a list gets one more part."""
    (start, stop), content = _content(message)
    if content.startswith(b"["):
        parts = [message[start + a : start + b] for a, b in source.elements(content)]
        value = source.array([msgspec.json.encode({"type": "text", "text": note}), *parts])
    else:
        value = source.prefixed(message[start:stop], note + "\n\n")
    return source.replaced(message, {(start, stop): value})
