"""Say what providers say when they refuse a request, in their own words."""

import json


def anthropic(message: str, kind: str = "invalid_request_error") -> str:
    return json.dumps({"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_invented"})


def openai(message: str, **more: object) -> str:
    return json.dumps({"error": {"message": message, "type": "invalid_request_error", "param": "input", **more}})


BOUND = (
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation. "
    'Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to "drop_block".'
)
SIGNATURE = "messages.1.content.0: Invalid `signature` in `thinking` block"
MODIFIED = (
    "messages.3.content.9: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be "
    "modified. These blocks must remain as they were in the original response."
)
MISSING = (
    "messages.5.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is "
    "enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` "
    "and `tool_result` blocks)."
)
NO_VALVE = "thinking.adaptive.block_binding: Extra inputs are not permitted"
UNANSWERED = (
    "messages.6: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1. Each `tool_use` "
    "block must have a corresponding `tool_result` block in the next message."
)
TOO_LONG = "prompt is too long: 211180 tokens > 200000 maximum"
