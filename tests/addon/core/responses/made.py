"""Make requests of the Responses wire as they are read, and as they are written."""

import json
from typing import Any

from openmem_addon.core import responses
from openmem_addon.core.model import Conversation, Item
from openmem_addon.core.rendering import Rendering

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAGQAAADICAIAAACRcFC9AAAAAElFTkSuQmCC"
USER = '{"type":"message","role":"user","content":[{"type":"input_text","text":"hello"}]}'
CALL = '{"type":"function_call","call_id":"c1","name":"run","arguments":"{}"}'
OUTPUT = '{"type":"function_call_output","call_id":"c1","output":"found"}'
REPLY = '{"type":"message","role":"assistant","content":[{"type":"output_text","text":"hi"}]}'
TASK = (
    '{"type":"agent_message","author":"lead","recipient":"lead/look","content":['
    '{"type":"input_text","text":"Message Type: NEW_TASK\\nPayload:\\n"},'
    '{"type":"encrypted_content","encrypted_content":"gAAAA"}]}'
)
REPORT = TASK.replace("NEW_TASK", "FINAL_ANSWER")
PACKED = json.dumps('[{"type":"thinking","thinking":"t","signature":"s"}]')


def body(*items: str, **more: Any) -> bytes:
    """Return a request from the source of its items."""
    rest = "".join(f",{json.dumps(key)}:{json.dumps(value)}" for key, value in more.items())
    return f'{{"model":"m-1","input":[{",".join(items)}]{rest}}}'.encode()


def parsed(*items: str, **more: Any) -> Conversation:
    return responses.parse(body(*items, **more))


def item(source: str) -> Item:
    return parsed(source).items[0]


def drafts(source: str) -> list[tuple[str, str, str | None, str]]:
    return [(draft.role, draft.kind, draft.name, draft.text) for draft in item(source).drafts]


def rendered(conversation: Conversation, **more: Any) -> bytes:
    """Render a request with everything as it is but for what is given."""
    given: dict[str, Any] = {
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
    return responses.render(conversation, Rendering(**(given | more)))
