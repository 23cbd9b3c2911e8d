"""Chat requests for the provider's tests: small legal ones, and for each rule one that breaks it."""

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from fixtures.provider import binding
from fixtures.provider.chat import prompt, translate
from fixtures.provider.chat.rules.request import Request
from fixtures.provider.openai import caching, gateway, models
from fixtures.provider.wire import Json

MODEL = "gpt-5.6-sol"
CLAUDE = "anthropic/claude-opus-5-5"
"""A model behind the gateway that runs the prefix check."""

HEADERS = {"authorization": "Bearer invented"}
READ = {"type": "function", "function": {"name": "Read", "parameters": {"type": "object"}}}
NOTE = {"type": "custom", "custom": {"name": "Note"}}


def user(content: object) -> Json:
    """Return a user message."""
    return {"role": "user", "content": content}


def assistant(content: object = None, *calls: Json, **more: object) -> Json:
    """Return an assistant message with its tool calls."""
    return {"role": "assistant", "content": content, **({"tool_calls": list(calls)} if calls else {}), **more}


def call(name: str = "call_1", arguments: str = '{"path":"a.txt"}', tool: str = "Read") -> Json:
    """Return a function call."""
    return {"id": name, "type": "function", "function": {"name": tool, "arguments": arguments}}


def custom(name: str = "call_1", given: str = "plain", tool: str = "Note") -> Json:
    """Return a call of a custom tool."""
    return {"id": name, "type": "custom", "custom": {"name": tool, "input": given}}


def tool(name: str = "call_1", content: object = "done") -> Json:
    """Return a tool message."""
    return {"role": "tool", "tool_call_id": name, "content": content}


def system(content: object = "be brief") -> Json:
    """Return a system message."""
    return {"role": "system", "content": content}


def body(*messages: Json, **more: Any) -> Json:
    """Return a request of the given messages."""
    return {"model": MODEL, "messages": list(messages), "tools": [READ], **more}


def changed(request: Json, **fields: object) -> Json:
    """Return the request with fields replaced; None removes one."""
    merged = {**copy.deepcopy(request), **fields}
    return {key: value for key, value in merged.items() if value is not None}


def answered(request: Json, thinking: str = "a thought") -> Json:
    """Return a gateway's request grown by an answer that thought, and a new user text."""
    signature, _ = binding.sign(translate.translated(request), text=thinking, shown=thinking, tokens=3)
    block = {"type": "thinking", "thinking": thinking, "signature": signature}
    grown = copy.deepcopy(request)
    made = assistant("an answer", reasoning_content=thinking, thinking_blocks=[block])
    grown["messages"] += [made, user("and then?")]
    return grown


def judged(request: Json, headers: Mapping[str, str] = HEADERS, **more: Any) -> Request:
    """Return a request as the rules see it."""
    upstream = None
    if models.traits(request.get("model")).behind_gateway:
        upstream = gateway.Gateway("new").forward(translate.translated(request), headers)
    total = upstream.tokens if upstream else caching.count(prompt.pieces(request))
    given = {"context_tokens": 1_000_000, **more}
    return Request(body=request, headers=headers, upstream=upstream, prompt_tokens=total, **given)


class Case(msgspec.Struct, frozen=True):
    """A request that breaks one rule, and its neighbour that breaks none."""

    broken: Json
    legal: Json
    message: str
    """Part of the provider's message."""
    param: str | None = None
    headers: Mapping[str, str] = MappingProxyType(HEADERS)
    context_tokens: int = 1_000_000


PAIR = (user("go"), assistant(None, call()), tool())
LEGACY = assistant(None, function_call={"name": "Read", "arguments": "{}"})
FUNCTION = {"role": "function", "name": "Read", "content": "done"}
THOUGHT = answered(body(system(), user("go"), model=CLAUDE))
IMAGE = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}

CASES: dict[str, Case] = {
    "authentication": Case(body(user("go")), body(user("go")), "You didn't provide an API key", headers={}),
    "required": Case(
        changed(body(user("go")), model=None), body(user("go")), "Missing required parameter: 'model'.", "model"
    ),
    "no_messages": Case(body(), body(system()), "Invalid 'messages': empty array.", "messages"),
    "stream_options": Case(
        body(user("go"), stream_options={"include_usage": True}),
        body(user("go"), stream_options={"include_usage": True}, stream=True),
        "only allowed when 'stream' is enabled",
        "stream_options",
    ),
    "role": Case(
        body(user("go"), {"role": "model", "content": "x"}),
        body({"role": "developer", "content": "x"}, user("go"), {"role": "developer", "content": "y"}),
        "Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.",
        "messages[1].role",
    ),
    "call_form": Case(
        body(user("go"), assistant("x", tool_calls=[])),
        body(user("go"), assistant("x", call(), custom("call_2")), tool(), tool("call_2")),
        "Invalid 'messages[1].tool_calls': empty array.",
        "messages[1].tool_calls",
    ),
    "null_content": Case(
        body(user("go"), assistant(None)),
        body(user(""), {"role": "assistant", "tool_calls": [call()]}, tool(content=""), assistant(""), user("more")),
        "Invalid value for 'content': expected a string, got null.",
        "messages.[1].content",
    ),
    "part_types": Case(
        body(user("go"), assistant(None, call()), tool(content=[{"type": "text", "text": "a"}, IMAGE])),
        body(user([{"type": "text", "text": "a"}, IMAGE]), assistant([{"type": "refusal", "refusal": "no"}])),
        "Invalid value: 'image_url'. Supported values are: 'text'.",
        "messages[2].content[1].type",
    ),
    "arguments": Case(
        body(user("go"), assistant(None, call(arguments='{"path":"a[cut]')), tool()),
        body(user("go"), assistant(None, custom(given='{"path":"a[cut]')), tool()),
        "Invalid 'messages[1].tool_calls[0].function.arguments'",
        "messages[1].tool_calls[0].function.arguments",
    ),
    "tool_unexpected": Case(
        body(user("go"), tool()),
        body(*PAIR),
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        "messages.[1].role",
    ),
    "tool_unknown": Case(
        body(user("go"), assistant(None, call()), tool("call_2")),
        body(user("go"), assistant(None, call(), call("call_2")), tool("call_2"), tool()),
        "'tool_call_id' of 'call_2' not found in 'tool_calls' of previous message.",
        "messages.[2].tool_call_id",
    ),
    "tool_twice": Case(
        body(*PAIR, tool()),
        body(*PAIR, assistant(None, call()), tool()),
        "Duplicate value for 'tool_call_id' of 'call_1'.",
        "messages.[3].tool_call_id",
    ),
    "call_unanswered": Case(
        body(user("go"), assistant(None, call(), call("call_2")), tool(), user("more")),
        body(user("go"), assistant(None, call(), call("call_2")), tool(), tool("call_2"), user("more")),
        "The following tool_call_ids did not have response messages: call_2",
        "messages.[1].role",
    ),
    "function_unexpected": Case(
        body(user("go"), LEGACY, {**FUNCTION, "name": "Write"}),
        body(user("go"), LEGACY, FUNCTION),
        "must be a response to a preceeding message with 'function_call' of 'Write'.",
        "messages.[2].role",
    ),
    "function_unanswered": Case(
        body(user("go"), LEGACY, user("more")),
        body(user("go"), LEGACY, {**FUNCTION, "content": None}, user("more")),
        "must be followed by a message with role 'function'.",
        "messages.[1].role",
    ),
    "signed_thinking": Case(
        changed(THOUGHT, messages=[system("be briefer"), *THOUGHT["messages"][1:]]),
        THOUGHT,
        "litellm.BadRequestError: AnthropicException - ",
    ),
    "prompt_length": Case(
        body(user("word " * 500)),
        body(user("go")),
        "This model's maximum context length is 400 tokens.",
        "messages",
        context_tokens=400,
    ),
}
