"""Requests for the provider's tests: small legal ones, and for each rule one that breaks it."""

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from fixtures.provider import binding, cache
from fixtures.provider.rules.request import Request
from fixtures.provider.wire import Json

CHECKED = "claude-opus-5-5"
"""A model that runs the prefix check."""

OLDER = "claude-opus-4-6"
"""A model that does not."""

HEADERS = {"x-api-key": "invented", "anthropic-version": "2023-06-01"}
CONTROLS = {**HEADERS, "anthropic-beta": binding.BETA}
READ = {"name": "Read", "input_schema": {"type": "object"}}
LATER = {"name": "Later", "input_schema": {"type": "object"}, "defer_loading": True}
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def user(*blocks: Json | str) -> Json:
    """Return a user message; one string stays a string."""
    if len(blocks) == 1 and isinstance(blocks[0], str):
        return {"role": "user", "content": blocks[0]}
    return {"role": "user", "content": [text(block) if isinstance(block, str) else block for block in blocks]}


def assistant(*blocks: Json | str) -> Json:
    """Return an assistant message."""
    return {**user(*blocks), "role": "assistant"}


def system(content: object, **more: object) -> Json:
    """Return a system message inside `messages`."""
    return {"role": "system", "content": content, **more}


def text(value: str, **more: object) -> Json:
    """Return a text block."""
    return {"type": "text", "text": value, **more}


def use(name: str = "toolu_1", tool: str = "Read", **more: object) -> Json:
    """Return a tool call."""
    return {"type": "tool_use", "id": name, "name": tool, "input": {"path": "a.txt"}, **more}


def result(name: str = "toolu_1", content: object = "done", **more: object) -> Json:
    """Return a tool result."""
    return {"type": "tool_result", "tool_use_id": name, "content": content, **more}


def body(*messages: Json, **more: Any) -> Json:
    """Return a request of the given messages."""
    return {"model": CHECKED, "max_tokens": 100, "messages": list(messages), "tools": [READ], **more}


def answered(request: Json, thinking: str = "a thought", *blocks: Json | str) -> Json:
    """Return the request grown by an answer that thought before `blocks`, and a new user text."""
    shown = thinking
    signature, _ = binding.sign(request, text=thinking, shown=shown, tokens=3)
    made = {"type": "thinking", "thinking": shown, "signature": signature}
    grown = copy.deepcopy(request)
    grown["messages"] += [assistant(made, *(blocks or ("an answer",))), user("and then?")]
    return grown


class Case(msgspec.Struct, frozen=True):
    """A request that breaks one rule, and its neighbour that breaks none."""

    broken: Json
    legal: Json
    message: str
    """Part of the provider's message."""
    headers: Mapping[str, str] = MappingProxyType(HEADERS)
    legal_headers: Mapping[str, str] = MappingProxyType(HEADERS)
    context_tokens: int = 1_000_000


def judged(request: Json, headers: Mapping[str, str] = HEADERS, **more: Any) -> Request:
    """Return a request as the rules see it."""
    verdict = binding.check(request, headers, account="new")
    prompt = sum(unit.tokens for unit in cache.prompt(request, dropped=verdict.dropped))
    given = {"context_tokens": 1_000_000, **more}
    return Request(body=request, headers=headers, verdict=verdict, prompt_tokens=prompt, **given)


PAIR = (user("go"), assistant(use()), user(result()))
THOUGHT = answered(body(user("go")))


def changed(request: Json, **fields: object) -> Json:
    """Return the request with fields replaced; None removes one."""
    merged = {**copy.deepcopy(request), **fields}
    return {key: value for key, value in merged.items() if value is not None}


def _server(kind: str) -> Json:
    return {"type": kind, "id": "srvtoolu_1", "name": "web_search", "input": {}}


FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
LOADED = result(content=[{"type": "tool_reference", "tool_name": "Later"}])
EFFORT = {"effort": "low"}
_first, *_rest = THOUGHT["messages"][1]["content"]
MARKED = assistant({**_first, "cache_control": MARK}, *_rest)

CASES: dict[str, Case] = {
    "authentication": Case(
        body(user("go")), body(user("go")), "x-api-key", headers={"anthropic-version": "2023-06-01"}
    ),
    "version": Case(body(user("go")), body(user("go")), "anthropic-version", headers={"x-api-key": "invented"}),
    "required": Case(changed(body(user("go")), max_tokens=None), body(user("go")), "max_tokens: Field required"),
    "role": Case(
        body(user("go"), {"role": "tool", "content": "x"}, user("go")),
        body(user("go"), assistant("x"), user("go")),
        "messages.1.role",
    ),
    "first_message": Case(
        body(assistant("hello"), user("go")),
        body(system([], output_config=EFFORT), user("go")),
        "first message must use",
    ),
    "system_first": Case(
        body(system("be brief"), user("go")),
        body(user("go"), system("be brief")),
        "use the top-level 'system' parameter",
    ),
    "system_content": Case(
        body(user("go"), system([])),
        body(user("go"), system([], output_config=EFFORT)),
        "system content must contain at least one block",
    ),
    "system_after": Case(
        body(user("go"), assistant(use()), system("note"), user(result())),
        body(user("go"), assistant(use()), user(result()), system("note")),
        "messages.2: role 'system' must follow",
    ),
    "system_before": Case(
        body(user("go"), system("one"), system("two"), user("more")),
        body(user("go"), system("one"), system("two"), assistant("yes"), user("more")),
        "messages.2: role 'system' must precede",
    ),
    "empty_content": Case(
        body(user("go"), assistant(), user("more")),
        body(user("go"), assistant("yes"), user("more")),
        "messages.1: all messages must have non-empty content",
    ),
    "empty_text": Case(
        body(user("go", text(" \n"))),
        body(user("go", text(" .\n")), system=[text("be brief")]),
        "messages: text content blocks must contain non-whitespace text",
    ),
    "cache_block": Case(
        body(*THOUGHT["messages"][:1], MARKED, user("more")),
        body(user(text("go", cache_control=MARK))),
        "cache_control cannot be set for thinking blocks",
    ),
    "cache_form": Case(
        body(user(text("go", cache_control={"type": "ephemeral", "ttl": "2h"}))),
        body(user(text("go", cache_control=HOUR))),
        "messages.0.content.0.cache_control.ttl: Input should be '5m' or '1h'",
    ),
    "cache_count": Case(
        body(user(*[text("go", cache_control=MARK)] * 4), cache_control=MARK),
        body(user(*[text("go", cache_control=MARK)] * 3), cache_control=MARK),
        "Found 5.",
    ),
    "cache_order": Case(
        body(user(text("go", cache_control=HOUR)), system=[text("be brief", cache_control=MARK)]),
        body(user(text("go", cache_control=MARK)), system=[text("be brief", cache_control=HOUR)]),
        "messages.0.content.0.cache_control.ttl: a ttl='1h'",
    ),
    "tool_use_unique": Case(
        body(*PAIR, assistant(use()), user(result())),
        body(*PAIR, assistant(use("toolu_2")), user(result("toolu_2"))),
        "messages.3: `tool_use` ids must be unique",
    ),
    "tool_use_unanswered": Case(
        body(user("go"), assistant(use(), use("toolu_2")), user(result())),
        body(user("go"), assistant(use(), use("toolu_2")), user(result("toolu_2"), result())),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_2",
    ),
    "tool_result_unexpected": Case(body(user(result())), body(*PAIR), "messages.0.content.0: unexpected `tool_use_id`"),
    "tool_result_duplicate": Case(
        body(user("go"), assistant(use()), user(result(), result())), body(*PAIR), "single result"
    ),
    "tool_result_position": Case(
        body(user("go"), assistant(use()), user("look:", result())),
        body(user("go"), assistant(use()), user(result(), "look")),
        "must come before any other content",
    ),
    "tool_result_error": Case(
        body(
            user("go"),
            assistant(use(tool="Later")),
            user(result(content=LOADED["content"], is_error=True)),
            tools=[READ, LATER],
        ),
        body(user("go"), assistant(use()), user(result(content=[text("no such file")], is_error=True))),
        'all content must be type "text" if `is_error` is true',
    ),
    "server_tool_pair": Case(
        body(user("go"), assistant(_server("server_tool_use"), "found it"), user("more")),
        body(user("go"), assistant(_server("server_tool_use"), FOUND, "found it"), user("more")),
        "without a corresponding result block",
    ),
    "tool_names": Case(
        body(user("go"), tools=[READ, READ]), body(user("go"), tools=[READ, LATER]), "Tool names must be unique."
    ),
    "tool_reference": Case(
        body(user("go"), assistant(use()), user(LOADED)),
        body(user("go"), assistant(use()), user(LOADED), tools=[READ, LATER]),
        "Tool reference 'Later' not found in available tools",
    ),
    "prefill": Case(
        body(user("go"), assistant("The answer is")),
        body(user("go"), assistant(_server("server_tool_use"))),
        "does not support assistant message prefill",
    ),
    "thinking_first": Case(
        body(*PAIR, model=OLDER, thinking={"type": "enabled", "budget_tokens": 1024}),
        body(*PAIR, assistant("done"), user("thanks"), model=OLDER, thinking={"type": "enabled"}),
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`",
    ),
    "binding_header": Case(
        body(user("go"), thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}),
        body(user("go"), thinking={"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}),
        "thinking.adaptive.block_binding: Extra inputs are not permitted",
        legal_headers=CONTROLS,
    ),
    "thinking_binding": Case(
        changed(THOUGHT, system="be brief"),
        THOUGHT,
        "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different",
    ),
    "prompt_length": Case(body(user("word " * 500)), body(user("go")), "tokens > 400 maximum", context_tokens=400),
}
