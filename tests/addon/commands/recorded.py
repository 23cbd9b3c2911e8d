"""Write session files as the agents do, of invented conversations."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SID = "0b7c2d9e-demo"
CWD = "/home/me/project"
AT = "2026-10-29T17:00:00.123Z"


def write(path: Path, lines: Iterable[Json]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def line(kind: str, **more: Any) -> Json:
    """Return a line of Claude Code's file."""
    return {"type": kind, "sessionId": SID, "cwd": CWD, "timestamp": AT, "isSidechain": False, **more}


def spoken(message: Json, number: int, **more: Any) -> list[Json]:
    """Return the lines of a message: one for each block of an answer, one for anything else."""
    if message["role"] == "user":
        return [line("user", message=message, **more)]
    usage = {"input_tokens": 10, "cache_read_input_tokens": 20, "cache_creation_input_tokens": 30, "output_tokens": 4}
    answer = {"id": f"msg_{number}", "model": "claude-opus-5-5", "role": "assistant", "usage": usage}
    return [line("assistant", message={**answer, "content": [block]}, **more) for block in message["content"]]


def told(messages: Sequence[Json]) -> list[Json]:
    """Return a transcript of an older version: what was said, and nothing of how it was sent."""
    return [each for number, message in enumerate(messages) for each in spoken(message, number)]


def noted(messages: Sequence[Json], *, around: Json | None = None, source: str = "sdk") -> list[Json]:
    """Return a transcript of a newer version, with a note of each request.

    `around` is what the client sent in place of the first message, with texts of its own.
    """
    lines: list[Json] = [
        line("api-request-shape", shape={"system": [{"type": "text", "text": "Be brief."}], "tools": []})
    ]
    names: list[str] = []
    sent = 0
    for number, message in enumerate(messages):
        if message["role"] == "assistant":
            tail = names[sent:]
            if number == 1 and around is not None:
                tail = [name(around)]
                lines.append(line("api-request-blob", hash=tail[0], message=around))
            parameters = {"model": "claude-opus-5-5"}
            lines.append(line("api-request", querySource=source, params=parameters, keep=sent, tail=tail))
            sent = number
        lines += spoken(message, number)
        names.append(name(message))
    return lines


def name(message: Json) -> str:
    """Return the hash by which a note of a request names a message."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode(errors="backslashreplace")).hexdigest()


def rollout(items: Sequence[Json], *, sid: str = SID, thread: str | None = None) -> list[Json]:
    """Return a rollout of Codex."""

    def entry(kind: str, payload: Json) -> Json:
        return {"timestamp": AT, "type": kind, "payload": payload}

    return [
        entry("session_meta", {"session_id": sid, "id": thread or sid, "cwd": CWD, "timestamp": AT}),
        entry("turn_context", {"model": "gpt-5.5"}),
        *(
            entry(item.pop("line"), item) if "line" in item else entry("response_item", item)
            for item in map(dict, items)
        ),
    ]


def said(role: str, text: str) -> Json:
    """Return a message of Codex."""
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
