"""Responses requests for the provider's tests: small legal ones, and for each rule one that breaks it."""

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from fixtures.provider import binding, canonical
from fixtures.provider.openai import caching, gateway, models
from fixtures.provider.responses import compose, prefix, prompt, translate, wire
from fixtures.provider.responses.history import Histories
from fixtures.provider.responses.rules.request import Request
from fixtures.provider.wire import Json

MODEL = "gpt-6.2-sol"
"""A model that drops reasoning which follows a prefix change."""

OLDER = "gpt-5.5"
"""A model that does not, and renders no reasoning of earlier turns."""

CLAUDE = "anthropic/claude-opus-5-5"
"""A model behind the gateway that runs the prefix check."""

HEADERS = {"authorization": "Bearer invented"}
READ = {"type": "function", "name": "Read", "parameters": {"type": "object"}}
KEPT = "resp_kept"
"""A stored response of `kept()`."""


def user(content: object = "go") -> Json:
    """Return a user message."""
    return {"type": "message", "role": "user", "content": content}


def assistant(content: object = "an answer") -> Json:
    """Return an assistant message without an id, as a client writes one."""
    return {"type": "message", "role": "assistant", "content": content}


def call(name: str = "call_1", kind: str = "function_call", **more: object) -> Json:
    """Return a call of any type."""
    given: Json = {
        "function_call": {"name": "Read", "arguments": '{"path":"a.txt"}'},
        "custom_tool_call": {"name": "exec", "input": "plain text"},
        "local_shell_call": {"action": {"type": "exec", "command": ["ls"], "env": {}}},
        "shell_call": {"action": {"commands": ["ls"]}},
        "apply_patch_call": {"operation": {"type": "delete_file", "path": "a.txt"}},
        "computer_call": {"action": {"type": "screenshot"}},
        "tool_search_call": {"arguments": {"query": "notes"}, "execution": "client"},
    }[kind]
    return {"type": kind, "call_id": name, **given, **more}


def output(name: str = "call_1", kind: str = "function_call", content: object = "done", **more: object) -> Json:
    """Return the answer to a call of any type."""
    field = "tools" if kind == "tool_search_call" else "output"
    return {"type": wire.CALLS[kind].output, "call_id": name, field: content, **more}


def thought() -> Json:
    """Return a reasoning item as the model makes it, before it is sealed."""
    return {"type": "reasoning", "summary": []}


def body(*items: Json, **more: Any) -> Json:
    """Return a request of the given items."""
    return {"model": MODEL, "input": list(items), "tools": [READ], "store": False, **more}


def changed(request: Json, **fields: object) -> Json:
    """Return the request with fields replaced; None removes one."""
    merged = {**copy.deepcopy(request), **fields}
    return {key: value for key, value in merged.items() if value is not None}


def made(request: Json, *plain: Json) -> list[Json]:
    """Return items as the model makes them in answer to a request: with ids, and reasoning sealed."""
    history = wire.items(request["input"])
    seed = canonical.digest(prefix.chain(request, history)[-1])
    return compose.issued(request, history, copy.deepcopy(list(plain)), seed=seed, thought=5)


def grown(request: Json, *items: Json) -> Json:
    """Return the request with more items."""
    return changed(request, input=[*copy.deepcopy(request["input"]), *items])


def answered(request: Json, *plain: Json) -> Json:
    """Return the request grown by an answer of the model, and the outputs of its calls."""
    items = made(request, *plain)
    outputs = [output(item["call_id"], item["type"]) for item in items if item["type"] in wire.CALLS]
    return grown(request, *items, *outputs)


def signed(request: Json, text: str = "a thought") -> Json:
    """Return a gateway's request grown by an answer that thought, and a new user text."""
    sent = translate.translated(request, wire.items(request["input"]))
    signature, _ = binding.sign(sent, text=text, shown=text, tokens=3)
    packed = translate.packed([{"type": "thinking", "thinking": text, "signature": signature}])
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": packed}
    return grown(request, reasoning, assistant(), user("and then?"))


def kept() -> Histories:
    """Return a store with one response: a thought, a call that waits, a compaction."""
    start = body(user())
    histories = Histories()
    histories.keep(KEPT, [*start["input"], *made(start, thought(), call())])
    return histories


def judged(request: Json, headers: Mapping[str, str] = HEADERS, **more: Any) -> Request:
    """Return a request as the rules see it."""
    resolved = kept().resolve(request)
    upstream = None
    if models.traits(request.get("model")).behind_gateway:
        upstream = gateway.Gateway("new").forward(translate.translated(request, resolved.items), headers)
    pieces = prompt.pieces(request, resolved.items)
    total = upstream.tokens if upstream else caching.count(pieces)
    given = {"context_tokens": 1_000_000, **more}
    return Request(body=request, headers=headers, resolved=resolved, upstream=upstream, prompt_tokens=total, **given)


class Case(msgspec.Struct, frozen=True):
    """A request that breaks one rule, and its neighbour that breaks none."""

    broken: Json
    legal: Json
    message: str
    """Part of the provider's message."""
    param: str | None = "input"
    headers: Mapping[str, str] = MappingProxyType(HEADERS)
    context_tokens: int = 1_000_000


START = body(user())
PAIR = (user(), call(), output())
THOUGHT = answered(START, thought(), call())
"""A user's text, a thought, the call it was made with, the result."""

REASONING, CALL, RESULT = THOUGHT["input"][1:]
ALTERED = REASONING["encrypted_content"][:-8] + "AAAAAAA="
SIGNED = signed(body(user(), instructions="be brief", model=CLAUDE))
[COMPACTED] = compose.compact("all that was", seed="0" * 24).items
WAITING = kept().resolve(body(user(), previous_response_id=KEPT)).items[2]["call_id"]


def without(item: Json, *fields: str) -> Json:
    """Return an item without some fields."""
    return {key: value for key, value in item.items() if key not in fields}


CASES: dict[str, Case] = {
    "authentication": Case(START, START, "You didn't provide an API key", None, headers={}),
    "required": Case(
        changed(START, input=None),
        body(output(WAITING), previous_response_id=KEPT),
        "One of 'input' or 'previous_response_id' or",
    ),
    "types": Case(changed(START, input=[]), changed(START, input="hello"), "Invalid 'input': empty array."),
    "previous_response": Case(
        body(user(), previous_response_id="resp_unknown"),
        body(output(WAITING), user("more"), previous_response_id=KEPT),
        "Previous response with id 'resp_unknown' not found.",
        "previous_response_id",
    ),
    "reasoning_form": Case(
        body(user(), without(REASONING, "id", "encrypted_content"), CALL, RESULT),
        body(user(), without(REASONING, "id"), without(CALL, "id"), RESULT),
        "Missing required parameter: 'input[1].id'.",
        "input[1].id",
    ),
    "stored_item": Case(
        body(user(), {"type": "item_reference", "id": "rs_unknown"}),
        body(user(), {"type": "item_reference", "id": REASONING["id"]}, CALL, RESULT),
        "Item with id 'rs_unknown' not found. Items are not persisted when `store` is set to false.",
    ),
    "role": Case(
        body({"role": "tool", "content": "x"}),
        body({"role": "developer", "content": "x"}, {"role": "system", "content": "y"}, user()),
        "Supported values are: 'assistant', 'system', 'developer', and 'user'.",
        "input[0].role",
    ),
    "part_types": Case(
        body(user(), assistant([{"type": "input_text", "text": "x"}])),
        body(user([{"type": "input_text", "text": "x"}]), assistant([{"type": "output_text", "text": ""}])),
        "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'.",
        "input[1].content[0]",
    ),
    "trigger_last": Case(
        body(user(), {"type": "compaction_trigger"}, user("more")),
        body(user(), user("more"), {"type": "compaction_trigger"}),
        "'compaction_trigger' must be the final input item.",
        "input[1]",
    ),
    "id_prefix": Case(
        body(user(), {**call(), "id": "item_1"}, output()),
        body({**user(), "id": "item_1"}, *made(START, call()), {**output(), "id": "item_2"}),
        "Invalid 'input[1].id': 'item_1'. Expected an ID that begins with 'fc'.",
        "input[1].id",
    ),
    "item_id": Case(
        body(user(), {**CALL, "arguments": '{"path":"b.txt"}'}, RESULT),
        body(user(), REASONING, {**CALL, "arguments": '{ "path": "a.txt" }'}, RESULT),
        "The ID does not belong to this item.",
        "input[1].id",
    ),
    "encrypted_content": Case(
        body(
            user(), {**REASONING, "encrypted_content": REASONING["encrypted_content"][:-8] + "AAAAAAA="}, CALL, RESULT
        ),
        body(COMPACTED, user(), *THOUGHT["input"][1:]),
        "could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
        None,
    ),
    "call_id": Case(
        body(user(), without(call(), "call_id"), output()),
        body(user(), {**call(kind="tool_search_call"), "call_id": None, "execution": "server"}),
        "Missing required parameter: 'input[1].call_id'.",
        "input[1].call_id",
    ),
    "output_unexpected": Case(
        body(user(), output()),
        body(*PAIR),
        "No tool call found for function call output with call_id call_1.",
    ),
    "output_twice": Case(
        body(*PAIR, output()),
        body(*PAIR, call(kind="custom_tool_call"), output(kind="custom_tool_call")),
        "Duplicate 'function_call_output' with call_id call_1.",
    ),
    "call_unanswered": Case(
        body(user(), call(), call("call_2"), output("call_2")),
        body(user(), call(), call("call_2"), output("call_2"), user("wait"), output()),
        "No tool output found for function call call_1.",
    ),
    "approval_unexpected": Case(
        body(user(), {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}),
        body(
            user(),
            {"type": "mcp_approval_request", "id": "mcpr_1", "arguments": "{}", "name": "a", "server_label": "b"},
            {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
        ),
        "No approval request found for approval response with id mcpr_1.",
    ),
    "reasoning_following": Case(
        body(user(), REASONING, user("more")),
        body(user(), REASONING, without(CALL, "id"), RESULT),
        f"Item '{REASONING['id']}' of type 'reasoning' was provided without its required following item.",
    ),
    "reasoning_required": Case(
        body(user(), CALL, RESULT),
        body(user(), without(CALL, "id"), RESULT),
        f"Item '{CALL['id']}' of type 'function_call' was provided without its required 'reasoning' item: "
        f"'{REASONING['id']}'.",
    ),
    "signed_thinking": Case(
        changed(SIGNED, instructions="be briefer"), SIGNED, "litellm.BadRequestError: AnthropicException - ", None
    ),
    "prompt_length": Case(
        body(user("word " * 500)),
        body(user()),
        "Your input exceeds the context window of this model.",
        context_tokens=400,
    ),
}
