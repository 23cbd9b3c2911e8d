"""Own Codex's rollouts: every item of a conversation, in the form it has on the wire."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec

from openmem_addon.commands.history import History, Request, lines, moment
from openmem_addon.commands.pricing import Counts

AGENT = "codex"

PRODUCED = ("reasoning", "function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_search_call")
"""Types of items that the model made, besides its messages: a request stands before the first of a run of them."""

Payload = Mapping[str, object]


class _Reading(msgspec.Struct):
    items: list[bytes] = []
    requests: list[Request] = []
    model: str | None = None
    answering: bool = False
    """The last item is the model's."""


def read(path: Path) -> list[History]:
    """Return the thread of one rollout. Raises ValueError for a file that is none, OSError."""
    state = _Reading()
    meta: Payload | None = None
    found = lines(path)
    for line in found.objects:
        payload = line.get("payload")
        if not isinstance(payload, dict):
            continue
        match line.get("type"):
            case "session_meta":
                meta = meta or payload  # a fork repeats its parent's behind its own
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
    if meta is None:
        found.complain(path)
        raise ValueError(f"{path.name} is no rollout: it names no session")
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
