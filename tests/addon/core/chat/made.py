"""Make requests of the Chat Completions wire as they are read, and as they are written."""

import json
from typing import Any

import msgspec
from openmem_addon.core import chat, texts
from openmem_addon.core.model import Conversation, Item
from openmem_addon.core.rendering import Rendering

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAGQAAADICAIAAACRcFC9AAAAAElFTkSuQmCC"
TOLD = msgspec.json.encode({"role": "system", "content": texts.STANDING_INSTRUCTION})


def body(*messages: str, **more: Any) -> bytes:
    """Return a request from the source of its messages."""
    rest = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in more.items())
    return f'{{"model":"m-1","messages":[{",".join(messages)}]{rest}}}'.encode()


def parsed(*messages: str, **more: Any) -> Conversation:
    return chat.parse(body(*messages, **more))


def item(message: str) -> Item:
    return parsed(message).items[0]


def drafts(message: str) -> list[tuple[str, str, str | None, str]]:
    return [(draft.role, draft.kind, draft.name, draft.text) for draft in item(message).drafts]


def rendering(conversation: Conversation, **more: Any) -> Rendering:
    """Return a rendering that keeps everything as it is but for what is given."""
    given = {
        "instruct": False,
        "kept": tuple(range(len(conversation.items))),
        "stripped": frozenset(),
        "emptied": frozenset(),
        "note": "",
        "noted": None,
        "moved": (),
        "moved_after": None,
        "valve": False,
        "compressed": {},
    }
    return Rendering(**(given | more))


def rendered(conversation: Conversation, **more: Any) -> bytes:
    return chat.render(conversation, rendering(conversation, **more))


USER = '{"role":"user","content":"hello"}'
