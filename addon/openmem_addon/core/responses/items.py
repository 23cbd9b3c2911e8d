"""Own the table of item types: which are calls and which answer them, and what an item of each type says."""

from collections.abc import Callable
from typing import Literal

import msgspec

from .. import source
from ..source import ABSENT, present
from .parts import Part


class WireItem(msgspec.Struct):
    """The fields we read of any item; the rest stays in its source."""

    type: str = "message"
    role: Literal["system", "developer", "user", "assistant", ""] = ""
    content: msgspec.Raw = ABSENT
    id: str | None = None
    call_id: str | None = None
    name: str = ""
    namespace: str | None = None
    arguments: msgspec.Raw = ABSENT
    input: msgspec.Raw = ABSENT
    action: msgspec.Raw = ABSENT
    operation: msgspec.Raw = ABSENT
    queries: msgspec.Raw = ABSENT
    code: msgspec.Raw = ABSENT
    output: msgspec.Raw = ABSENT
    outputs: msgspec.Raw = ABSENT
    results: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    tools: msgspec.Raw = ABSENT
    summary: msgspec.Raw = ABSENT
    encrypted_content: str | None = None
    result: str | None = None
    approval_request_id: str | None = None
    approve: msgspec.Raw = ABSENT
    reason: msgspec.Raw = ABSENT


class CallType(msgspec.Struct, frozen=True):
    """How a call item of one type is read."""

    tool: str
    """Its tool where the item names none."""
    input: Callable[[WireItem], msgspec.Raw]
    answered: bool = True
    """A client's output item answers it; otherwise its result is in the item itself."""
    result: Callable[[WireItem], msgspec.Raw] = lambda item: item.output if present(item.output) else item.error
    free: bool = False
    """Its input is a text of the tool's own, never JSON to be compacted."""


CALLS: dict[str, CallType] = {
    "function_call": CallType("", lambda item: item.arguments),
    "custom_tool_call": CallType("", lambda item: item.input, free=True),
    "local_shell_call": CallType("local_shell", lambda item: item.action),
    "shell_call": CallType("shell", lambda item: item.action),
    "apply_patch_call": CallType("apply_patch", lambda item: item.operation),
    "computer_call": CallType("computer", lambda item: item.action),
    "tool_search_call": CallType("tool_search", lambda item: item.arguments),
    "mcp_call": CallType("", lambda item: item.arguments, answered=False),
    "mcp_approval_request": CallType("", lambda item: item.arguments, answered=False),
    "web_search_call": CallType("web_search", lambda item: item.action, answered=False),
    "file_search_call": CallType(
        "file_search", lambda item: item.queries, answered=False, result=lambda item: item.results
    ),
    "code_interpreter_call": CallType(
        "code_interpreter", lambda item: item.code, answered=False, result=lambda item: item.outputs, free=True
    ),
    "image_generation_call": CallType("image_generation", lambda item: ABSENT, answered=False),
}

OUTPUTS = {
    "function_call_output",
    "custom_tool_call_output",
    "local_shell_call_output",
    "shell_call_output",
    "apply_patch_call_output",
    "computer_call_output",
    "tool_search_output",
}

PINNED = {"additional_tools", "compaction", "compaction_summary", "configuration_update", "mcp_list_tools"}
"""Items that stay in every view: tools and settings the model has, and history that only the provider can read."""

SPOKEN = ("message", "agent_message")
"""Items with content of their own; the second is what one agent of Codex says to another, partly encrypted."""

_PINNING = "litellm_enc:"
"""Opens an encrypted content that LiteLLM sends back to the deployment it came from."""

ITEM = msgspec.json.Decoder(WireItem)

_BLOCKS = msgspec.json.Decoder(list[Part])


def argument(value: msgspec.Raw, *, free: bool) -> str:
    """Return a call's input: a string's own JSON compacted unless it is `free` text, an object compact."""
    raw = bytes(value)
    if not present(value):
        return "" if free else "{}"
    if not raw.startswith(b'"'):
        return source.compact(raw)
    text = msgspec.json.decode(raw, type=str)
    return text if free else source.arguments(text)


def is_signed(encrypted: str | None) -> bool:
    """Return whether reasoning is LiteLLM's packing of signed Anthropic blocks: a JSON list of them.

    Where it pins a model it puts `litellm_enc:<base64>;` before that. OpenAI's own encrypted
    content is no JSON, and not tied to the messages before it.
    """
    if not encrypted:
        return False
    packed = encrypted.partition(";")[2] if encrypted.startswith(_PINNING) else encrypted
    if not packed.lstrip().startswith("["):
        return False
    try:
        return any(block.type in ("thinking", "redacted_thinking") for block in _BLOCKS.decode(packed))
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return False
