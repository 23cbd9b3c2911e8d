"""Own Claude Code's transcripts: from the lines it writes back to the requests it sent.

Newer versions note with each request which messages it kept and which came behind them, by hash; texts that the client
made up itself are in the file, any other hash is the next message of the conversation. Older versions note only the
conversation: what the client put around it is then not known.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import msgspec

from openmem_addon.commands.history import History, Request, lines, moment
from openmem_addon.commands.pricing import Counts

AGENT = "claude-code"

SIDE = ("compact", "title", "summary", "quota", "count_tokens", "prompt_suggestion", "memory", "hook")
"""Parts of `querySource` that name requests beside the conversation: the proxy stores none of them."""

Line = Mapping[str, object]
Message = dict[str, object]


def read(path: Path) -> list[History]:
    """Return the threads of one transcript. Raises ValueError for a file that is none, OSError."""
    found = [line for line in lines(path) if line.get("type") in _READ]
    spoken = [line for line in found if line["type"] in ("user", "assistant") and isinstance(line.get("message"), dict)]
    if not spoken:
        return []
    first = spoken[0]
    head, requests, replies = _noted(found) or _told(spoken)
    if not requests:
        return []
    history = History(
        agent=AGENT,
        sid=str(first.get("sessionId")),
        cwd=str(first["cwd"]) if first.get("cwd") else None,
        began=moment(first.get("timestamp")),
        wire="/v1/messages",
        array="messages",
        head=head,
        requests=tuple(requests),
        replies=tuple(replies),
    )
    return [history]


_READ = ("user", "assistant", "system", "api-request", "api-request-blob", "api-request-shape")


class _Exact(msgspec.Struct):
    """What was read so far of a transcript that notes its requests."""

    known: dict[str, bytes] = {}
    """Messages by hash."""
    waiting: list[Message] = []
    """Messages that were said and no request has sent yet."""
    head: bytes = b""
    last: tuple[bytes, ...] = ()
    requests: list[Request] = []


def _noted(found: Iterable[Line]) -> tuple[bytes, list[Request], list[bytes]] | None:
    """Return head, requests and the last answer by the client's own notes; None where it left none that hold."""
    state = _Exact()
    for line in found:
        match line["type"]:
            case "api-request-blob":
                state.known[str(line["hash"])] = _encoded(cast(Message, line["message"]))
            case "api-request-shape":
                state.head = _head(cast(Message, line.get("shape") or {}))
            case "api-request":
                if not _is_side(line) and not _sent(state, line):
                    return None
            case "user" | "assistant":
                _said(state.waiting, line)
                _count(state.requests, line)
            case _:
                pass
    if not state.requests:
        return None
    replies = [_encoded(each) for each in state.waiting if each["role"] == "assistant"]
    return state.head, state.requests, replies[:1]


def _sent(state: _Exact, line: Line) -> bool:
    """Take a request; return whether every message of it is known."""
    items = list(state.last[: cast(int, line.get("keep") or 0)])
    for name in cast("list[str]", line.get("tail") or []):
        if name not in state.known:
            if not state.waiting:
                return False
            state.known[name] = _encoded(state.waiting.pop(0))
        items.append(state.known[name])
    # A prompt is also a line of its own where the client sent it with a text around it.
    state.waiting.clear()
    state.last = tuple(items)
    parameters = cast(Message, line.get("params") or {})
    state.requests.append(Request(state.last, cast("str | None", parameters.get("model"))))
    return True


def _told(spoken: Iterable[Line]) -> tuple[bytes, list[Request], list[bytes]]:
    """Return requests as they must have been: one before each answer, with all that was said before it."""
    said: list[Message] = []
    requests: list[Request] = []
    for line in spoken:
        if line.get("isCompactSummary"):
            said = []
        message = cast(Message, line["message"])
        if line["type"] == "assistant" and message.get("model") == "<synthetic>":
            continue
        new = line["type"] == "assistant" and not (said and said[-1].get("id") == message.get("id"))
        if new and said:
            requests.append(Request(tuple(map(_encoded, said)), cast("str | None", message.get("model"))))
        _said(said, line)
        _count(requests, line)
    if said and not requests:
        requests.append(Request(tuple(map(_encoded, said)), None))
        return b"", requests, []
    return b"", requests, [_encoded(each) for each in said[len(requests[-1].items) :]] if requests else []


def _said(messages: list[Message], line: Line) -> None:
    """Add a line's message; an answer is written block by block, a line each."""
    message = cast(Message, line["message"])
    if message.get("model") == "<synthetic>":
        return
    last = messages[-1] if messages else None
    same = (
        last is not None and last["role"] == "assistant" == message.get("role") and last.get("id") == message.get("id")
    )
    if same and last is not None:
        last["content"] = [*cast("list[object]", last["content"]), *cast("list[object]", message["content"])]
        return
    # Clients that run calls at once write their results a line each, and send them as one message.
    if last is not None and _is_results(last) and _is_results(message):
        last["content"] = [*cast("list[object]", last["content"]), *cast("list[object]", message["content"])]
        return
    messages.append({"role": message.get("role"), "content": message.get("content"), "id": message.get("id")})


def _is_results(message: Message) -> bool:
    content = message.get("content")
    return (
        message.get("role") == "user"
        and isinstance(content, list)
        and any(isinstance(part, dict) and part.get("type") == "tool_result" for part in content)
    )


def _count(requests: list[Request], line: Line) -> None:
    """Note what the provider counted of the last request, which its answer's line holds."""
    usage = cast(Message, line["message"]).get("usage")
    if line["type"] != "assistant" or not requests or not isinstance(usage, dict):
        return
    counted = Counts(
        input=int(usage.get("input_tokens") or 0),
        read=int(usage.get("cache_read_input_tokens") or 0),
        written=int(usage.get("cache_creation_input_tokens") or 0),
        output=int(usage.get("output_tokens") or 0),
    )
    if counted.prompt:
        requests[-1] = msgspec.structs.replace(requests[-1], counted=counted)


def _is_side(line: Line) -> bool:
    source = str(line.get("querySource", ""))
    return any(part in source for part in SIDE)


def _head(shape: Message) -> bytes:
    members = [(name, shape[name]) for name in ("system", "tools") if shape.get(name)]
    return b",".join(b'"%s":' % name.encode() + _json(value) for name, value in members)


def _encoded(message: Message) -> bytes:
    return _json({"role": message["role"], "content": message["content"]})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
