"""Scripts and conversations that the tests of every agent share."""

import json
from collections.abc import Iterator

from fixtures.agent import Agent
from fixtures.agents.chat import ChatAgent
from fixtures.agents.responses import ResponsesAgent
from fixtures.agents.talk import Json
from fixtures.provider.scenario import Call, Failure, Step

SCRIPTS = {
    "build": (
        Step(
            thinking="Look first.",
            text="Reading.",
            tools=(Call("run", {"cmd": "cat a"}), Call("run", {"cmd": "cat é"})),
        ),
        Step(tools=(Call("run", {"cmd": "make"}),)),
        Step(thinking="All is well.", text="Built."),
    ),
    "more": (Step(text="That was all."),),
    "special": (
        Step(tools=(Call("exec", custom="plain text", namespace="notes"),)),
        Step(text="Noted."),
    ),
    "breaks": (Step(error=Failure(after=3, message="Too busy"), text="words " * 100),),
    "cut": (Step(text="words " * 200, cut_after=5),),
    "refused": (Step(error=Failure(status=400, type="invalid_request_error", message="No.")),),
}
PROMPTS = ("Please build. SCENARIO:build", "And now? SCENARIO:more")


def run(name: str, given: Json) -> str:
    """Answer a tool call with what it was asked."""
    return f"{name}: {json.dumps(given, ensure_ascii=False)}"


def conversation(agent: Agent | ChatAgent | ResponsesAgent) -> list[tuple[str, ...]]:
    """Return what was said and done, without the form of a wire and without ids."""
    if isinstance(agent, ChatAgent):
        return list(_chat(agent.history))
    if isinstance(agent, ResponsesAgent):
        return list(_responses(agent.history))
    return list(_messages(agent.messages))


def _messages(messages: list[Json]) -> Iterator[tuple[str, ...]]:
    for message in messages:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "thinking":
                    yield "thinking", block["thinking"]
                case "text":
                    yield message["role"], block["text"]
                case "tool_use":
                    yield "call", block["name"], json.dumps(block["input"], sort_keys=True)
                case "tool_result":
                    yield "result", block["content"]


def _chat(messages: list[Json]) -> Iterator[tuple[str, ...]]:
    for message in messages[1:]:
        if message["role"] == "tool":
            yield "result", message["content"]
            continue
        if message.get("reasoning_content"):
            yield "thinking", message["reasoning_content"]
        if message["content"]:
            yield message["role"], message["content"]
        for call in message.get("tool_calls", []):
            inner = call[call["type"]]
            given = json.loads(inner["arguments"]) if call["type"] == "function" else {"input": inner["input"]}
            yield "call", inner["name"], json.dumps(given, sort_keys=True)


def _responses(items: list[Json]) -> Iterator[tuple[str, ...]]:
    for item in items:
        match item["type"]:
            case "message" if item["role"] != "developer":
                for part in item["content"]:
                    yield item["role"], part["text"]
            case "reasoning":
                for part in item["summary"]:
                    yield "thinking", part["text"]
            case "function_call" | "custom_tool_call":
                name = f"{item['namespace']}__{item['name']}" if "namespace" in item else item["name"]
                given = json.loads(item["arguments"]) if item["type"] == "function_call" else {"input": item["input"]}
                yield "call", name, json.dumps(given, sort_keys=True)
            case "function_call_output" | "custom_tool_call_output":
                yield "result", item["output"]
