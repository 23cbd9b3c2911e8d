"""Own what the scripted agent sees: the request as it was forwarded, and nothing else."""

import json
import re
from typing import Any

import msgspec

from fixtures.provider import wire

_POINTER = re.compile(r"\[openmem: continuing session (\S+);")

type Json = dict[str, Any]


class Called(msgspec.Struct, frozen=True):
    """A tool call that was answered since the newest operation."""

    name: str
    """Without the client's prefix."""
    answer: Json
    """Empty when the tool refused."""
    refusal: str = ""


class Sight(msgspec.Struct, frozen=True):
    """A request's content, sorted."""

    texts: tuple[str, ...]
    """Every text in a user message, oldest first, the pointer left out."""
    operation: str
    """The newest of them."""
    session: str | None
    """The session id that the pointer names; None where nothing was removed."""
    tools: frozenset[str]
    """Names of the search tools that are offered, without the client's prefix."""
    called: tuple[Called, ...]


def look(body: Json) -> Sight:
    """Read a Messages request."""
    texts: list[str] = []
    session = None
    calls: dict[str, str] = {}
    called: list[Called] = []
    for message in wire.messages(body):
        for block in wire.blocks(message.get("content")):
            match message.get("role"), block.get("type"):
                case "user", "text":
                    text = str(block["text"])
                    if pointer := _POINTER.search(text):
                        session = pointer.group(1)
                    else:
                        texts.append(text)
                        called.clear()
                case "assistant", "tool_use":
                    calls[str(block["id"])] = _bare(str(block["name"]))
                case "user", "tool_result":
                    called.append(_called(calls.get(str(block["tool_use_id"]), ""), block))
    offered = frozenset(_bare(str(tool.get("name"))) for tool in wire.tools(body))
    return Sight(tuple(texts), texts[-1], session, offered, tuple(called))


def _called(name: str, block: Json) -> Called:
    text = "".join(str(part.get("text", "")) for part in wire.blocks(block.get("content")))
    try:
        answer = json.loads(text)
    except ValueError:
        return Called(name, {}, text)
    return Called(name, answer) if isinstance(answer, dict) else Called(name, {}, text)


def _bare(name: str) -> str:
    return name.rpartition("__")[2]
