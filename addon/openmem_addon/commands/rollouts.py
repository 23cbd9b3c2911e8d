"""Own Codex's rollouts: every item of a conversation, in the form it has on the wire."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import cast

import msgspec

from openmem_addon.commands.history import History, Request, lines, moment
from openmem_addon.commands.pricing import Counts

AGENT = "codex"

PRODUCED = ("reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call")
"""Types of items that the model made, besides its messages: a request stands before the first of a run of them."""

FOLDERS = ("sessions", "archived_sessions")
"""Where Codex keeps rollouts, and where it puts them away."""

SUFFIXES = ("jsonl", "jsonl.zst")
"""It compresses some."""

PATTERNS = tuple(f"{folder}/**/rollout-*.{suffix}" for folder in FOLDERS for suffix in SUFFIXES)

Payload = Mapping[str, object]


class _Reading(msgspec.Struct):
    items: list[bytes] = []
    requests: list[Request] = []
    model: str | None = None
    answering: bool = False
    """The last item is the model's."""


def read(path: Path) -> list[History]:
    """Return the thread of one rollout. Raises ValueError for a file that is none, OSError."""
    found = lines(path)
    meta = _meta(found.objects)
    if meta is None:
        found.complain(path)
        raise ValueError(f"{path.name} is no rollout: it names no session")
    state = _Reading()
    for line in _inherited(path, meta, frozenset()):
        _read(state, line)
    state.requests.clear()  # they are the other session's; its items were sent again
    for line in found.objects:
        _read(state, line)
    if not state.items:
        return []
    if not state.requests:
        state.requests.append(Request(tuple(state.items), state.model))
    sent = len(state.requests[-1].items)
    history = History(
        agent=AGENT,
        sid=str(meta.get("session_id") or meta.get("id")),
        cwd=str(meta["cwd"]) if meta.get("cwd") else None,
        began=moment(meta.get("timestamp")),
        wire="/v1/responses",
        array="input",
        head=b"",
        requests=tuple(state.requests),
        replies=tuple(state.items[sent:]),
        broken=len(found.broken),
    )
    return [history]


def _meta(found: Iterable[Payload]) -> Payload | None:
    """Return what a file says of its session; a fork may repeat its parent's behind its own."""
    payloads = (line.get("payload") for line in found if line.get("type") == "session_meta")
    return next((payload for payload in payloads if isinstance(payload, dict)), None)


def _inherited(path: Path, meta: Payload, known: frozenset[str]) -> list[Payload]:
    """Return the lines of another session that a forked one begins with, where its file only names it.

    None where that one's file is gone.
    """
    base = meta.get("history_base")
    thread = str(base.get("thread_id")) if isinstance(base, dict) else ""
    end = base.get("end_ordinal_exclusive") if isinstance(base, dict) else None
    if not re.fullmatch(r"[0-9A-Za-z-]+", thread) or thread in known or not isinstance(end, int):
        return []
    place = next((each.parent for each in path.parents if each.name in FOLDERS), path.parent)
    other = next((each for suffix in SUFFIXES for each in place.glob(f"**/rollout-*{thread}.{suffix}")), None)
    if other is None:
        return []
    found = lines(other).objects
    before = _inherited(other, _meta(found) or {}, known | {thread})
    return [*before, *(line for line in found if isinstance(at := line.get("ordinal"), int) and at < end)]


def _read(state: _Reading, line: Payload) -> None:
    payload = line.get("payload")
    if not isinstance(payload, dict):
        return
    match line.get("type"):
        case "turn_context":
            state.model = str(payload["model"]) if payload.get("model") else state.model
        case "response_item":
            _take(state, payload)
        case "compacted":
            _compacted(state, payload)
        case "event_msg":
            _count(state, payload)
        case _:
            pass


def _take(state: _Reading, item: Payload) -> None:
    produced = item.get("type") in PRODUCED or (item.get("type") == "message" and item.get("role") == "assistant")
    if produced and not state.answering and state.items:
        state.requests.append(Request(tuple(state.items), state.model))
    state.answering = produced
    state.items.append(_json(item))


def _compacted(state: _Reading, payload: Payload) -> None:
    """Begin anew with the history that stands in for the one so far."""
    if state.items and not (state.requests and len(state.requests[-1].items) == len(state.items)):
        state.requests.append(Request(tuple(state.items), state.model))
    history = payload.get("replacement_history")
    state.items = [_json(item) for item in cast("list[object]", history)] if isinstance(history, list) else []
    state.answering = False


def _count(state: _Reading, payload: Payload) -> None:
    """Note what the provider counted of the last request."""
    info = payload.get("info")
    usage = info.get("last_token_usage") if payload.get("type") == "token_count" and isinstance(info, dict) else None
    if not isinstance(usage, dict) or not state.requests:
        return
    read, written = int(usage.get("cached_input_tokens") or 0), int(usage.get("cache_write_input_tokens") or 0)
    counted = Counts(
        input=max(0, int(usage.get("input_tokens") or 0) - read - written),
        read=read,
        written=written,
        output=int(usage.get("output_tokens") or 0),
    )
    if counted.prompt:
        state.requests[-1] = msgspec.structs.replace(state.requests[-1], counted=counted)


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
