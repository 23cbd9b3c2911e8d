"""Own Claude Code's transcripts: from the lines it writes back to the requests it sent.

Newer versions note with each request which messages it kept and which came behind them, by hash; texts that the client
made up itself are in the file, any other hash is that of a message of the conversation. Older versions note only the
conversation: what the client put around it is then not known.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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
    read = lines(path)
    spoken = [line for line in read.objects if _is_spoken(line)]
    if not spoken:
        read.complain(path)
        return []
    parents = {str(line["uuid"]): line.get("parentUuid") for line in read.objects if line.get("uuid")}
    trunk, *branches = _threads(spoken)
    threads = [_noted(read.objects) or _told(trunk, parents), *(_told(branch, parents) for branch in branches)]
    return [
        History(
            agent=AGENT,
            # A resumed session may begin with the lines of the one it was, under that one's id.
            sid=str(spoken[-1].get("sessionId")),
            cwd=str(said[0]["cwd"]) if said[0].get("cwd") else None,
            began=moment(said[0].get("timestamp")),
            wire="/v1/messages",
            array="messages",
            head=head,
            requests=tuple(requests),
            replies=tuple(replies),
            broken=len(read.broken),
        )
        for said, (head, requests, replies) in zip((trunk, *branches), threads, strict=True)
        if requests
    ]


def _is_spoken(line: Line) -> bool:
    return line.get("type") in ("user", "assistant") and isinstance(line.get("message"), dict)


def _threads(spoken: Sequence[Line]) -> list[list[Line]]:
    """Return the conversation and those of its subagents, which older versions wrote into the same file."""
    trunk = [line for line in spoken if not line.get("isSidechain")]
    if not trunk:
        return [list(spoken)]
    threads = [trunk]
    owner: dict[object, list[Line]] = {}
    for line in spoken:
        if not line.get("isSidechain"):
            continue
        thread = owner.get(line.get("parentUuid"))
        if thread is None:
            thread = []
            threads.append(thread)
        thread.append(line)
        owner[line.get("uuid")] = thread
    return threads


class _Exact(msgspec.Struct):
    """What was read so far of a transcript that notes its requests."""

    known: dict[str, bytes] = {}
    """Messages by hash."""
    waiting: list[Message] = []
    """Messages that were said since the last request."""
    head: bytes = b""
    requests: list[Request] = []
    missed: list[bytes] = []
    """Parts of messages that the request after them did not send as they were said."""


def _noted(found: Iterable[Line]) -> tuple[bytes, list[Request], list[bytes]] | None:
    """Return head, requests and the last answer by the client's own notes.

    None where it left none, or none that hold: each message is known by its hash, and all that was said was sent.
    """
    state = _Exact()
    for line in found:
        match line.get("type"):
            case "api-request-blob":
                state.known[str(line["hash"])] = _encoded(cast(Message, line["message"]))
            case "api-request-shape":
                state.head = _head(cast(Message, line.get("shape") or {}))
            case "api-request":
                if not _is_side(line) and not _sent(state, line):
                    return None
            case "user" | "assistant" if _is_spoken(line):
                _said(state.waiting, line)
                _count(state.requests, line)
            case _:
                pass
    if not state.requests:
        return None
    replies = _unsent(state.waiting, ())
    _miss(state, replies)
    stored = b"".join({id(item): item for each in state.requests for item in (*each.items, *each.left)}.values())
    if not all(part in stored for part in state.missed):
        return None
    return state.head, state.requests, replies


def _sent(state: _Exact, line: Line) -> bool:
    """Take a request; return whether every message of it is known."""
    for message in state.waiting:
        for form in _forms(message):
            state.known[_name(form)] = _encoded(form)
    kept = cast(int, line.get("keep") or 0)
    names = cast("list[str]", line.get("tail") or [])
    if not all(name in state.known for name in names):
        return False
    before = state.requests[-1].items if state.requests else ()
    items = (*before[:kept], *(state.known[name] for name in names))
    if left := _unsent(state.waiting, items) if state.requests else []:
        state.requests[-1] = msgspec.structs.replace(state.requests[-1], left=tuple(left))
    _miss(state, (*items[kept:], *left))
    state.waiting.clear()
    parameters = cast(Message, line.get("params") or {})
    state.requests.append(Request(items, cast("str | None", parameters.get("model"))))
    return True


def _unsent(waiting: Iterable[Message], items: Collection[bytes]) -> list[bytes]:
    """Return the answer that is in none of these items; a prompt may be in one, with a text around it."""
    answers = [_encoded(message) for message in waiting if message["role"] == "assistant"]
    return [answer for answer in answers[:1] if answer not in items]


def _forms(message: Message) -> Iterator[Message]:
    """Yield what a message may have been sent as: a prompt is said as a text and sent as a block."""
    yield {"role": message["role"], "content": message["content"]}
    if isinstance(message["content"], str):
        yield {"role": message["role"], "content": _blocks(message)}


def _name(message: Message) -> str:
    """Return the hash by which the client's notes name a message."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    # Half of a surrogate pair is hashed as it is written, as its escape.
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def _miss(state: _Exact, items: Collection[bytes]) -> None:
    """Note what of the waiting messages is none of these items: a prompt may be in one, with a text around it."""
    for message in state.waiting:
        if not any(_encoded(form) in items for form in _forms(message)):
            state.missed += _parts(message)


def _parts(message: Message) -> Iterator[bytes]:
    """Yield what shows that a message was sent: its texts as JSON, the ids of its calls and results."""
    for part in _blocks(message):
        known = part.get("text") or part.get("id") or part.get("tool_use_id") if isinstance(part, dict) else None
        if isinstance(known, str):
            yield _json(known)[1:-1]


def _told(spoken: Iterable[Line], parents: Mapping[str, object]) -> tuple[bytes, list[Request], list[bytes]]:
    """Return requests as they must have been: one before each answer, with all that was said before it.

    `parents` has the line before each line, those that are not spoken among them.
    """
    said: list[Message] = []
    items: list[bytes] = []
    """Those of the messages that were sent; nothing is added to them any more."""
    requests: list[Request] = []
    places: dict[object, int] = {}
    """How many messages there were after each line, by its id."""
    for line in spoken:
        if line.get("isCompactSummary"):
            _close(said, items, requests)
            said, items, places = [], [], {}
        elif _is_prompt(line) and (kept := _after(line, parents, places)) is not None and kept < len(said):
            # A person went back to an earlier prompt; a result may name an earlier line as it is.
            _close(said, items, requests)
            said, items = said[:kept], items[:kept]
        message = cast(Message, line["message"])
        if line["type"] == "assistant" and message.get("model") == "<synthetic>":
            continue
        if line["type"] == "assistant" and said and _answer(said, message) is None:
            requests.append(Request(_all(said, items), cast("str | None", message.get("model"))))
        _said(said, line)
        _count(requests, line)
        places[line.get("uuid")] = len(said)
    if said and not requests:
        requests.append(Request(tuple(map(_encoded, said)), None))
        return b"", requests, []
    return b"", requests, [_encoded(each) for each in said[len(requests[-1].items) :]] if requests else []


def _all(said: Sequence[Message], items: list[bytes]) -> tuple[bytes, ...]:
    """Return all messages as items, each made once."""
    items += map(_encoded, said[len(items) :])
    return tuple(items)


def _close(said: Sequence[Message], items: list[bytes], requests: list[Request]) -> None:
    """Keep what was said and never sent: an answer that the conversation did not go on from."""
    whole = _all(said, items)
    last = requests[-1] if requests else None
    if last is not None and whole[: len(last.items)] == last.items:
        requests[-1] = msgspec.structs.replace(last, left=whole[len(last.items) :])
    elif whole:
        requests.append(Request(whole, last.model if last else None))


def _is_prompt(line: Line) -> bool:
    message = cast(Message, line["message"])
    return message.get("role") == "user" and not _is_results(message)


def _after(line: Line, parents: Mapping[str, object], places: Mapping[object, int]) -> int | None:
    """Return how many messages stand before a line, None where its file does not say."""
    before = line.get("parentUuid")
    for _ in range(len(parents)):
        if before in places or before is None:
            break
        before = parents.get(str(before))
    return places.get(before) if before is not None else None


def _said(messages: list[Message], line: Line) -> None:
    """Add a line's message; an answer is written block by block, a line each."""
    message = cast(Message, line["message"])
    if message.get("model") == "<synthetic>":
        return
    last = messages[-1] if messages else None
    answer = _answer(messages, message)
    if answer is not None:
        answer["content"] = [*_blocks(answer), *_blocks(message)]
        return
    # Clients that run calls at once write their results a line each, and send them as one message.
    if last is not None and _is_results(last) and _is_results(message):
        last["content"] = [*_blocks(last), *_blocks(message)]
        return
    messages.append({"role": message.get("role"), "content": message.get("content"), "id": message.get("id")})


def _answer(messages: Sequence[Message], message: Message) -> Message | None:
    """Return the answer that a line goes on with: a call may have its result before the next block is written."""
    near = messages[-2:] if messages and _is_results(messages[-1]) else messages[-1:]
    same = (each for each in near if each["role"] == "assistant" and each["id"] == message.get("id"))
    return next(same, None) if message.get("role") == "assistant" else None


def _blocks(message: Message) -> list[object]:
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


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
