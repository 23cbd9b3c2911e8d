"""Own what an agent's hooks do: register a session, ask for a trim, say what the proxy left to say.

Runs on every prompt, so it imports next to nothing: neither pathlib, which takes a fifth of the time, nor anything of
this project; the rules for ids and places stand here once more, and tests hold them to the store's. Whatever goes
wrong here, the agent's prompt goes on.
"""

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence

HELP = """\
usage: openmem-context-hook AGENT < event

Handles the SessionStart and UserPromptSubmit events of Claude Code and Codex, which `./run.sh install` registers.
AGENT is what the session is registered as. Reads one JSON object from standard input; never fails the agent."""

COMMAND = "/smart-compact"
"""What a person types, alone or beside other words, to have the next request trimmed."""

RAISED = "openmem: the next request of this session will be trimmed"
NOT_RAISED = "openmem: the trim could not be asked for: {reason}"

SPACE = " \t\n\v\f\r"
SAFE = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
MOST = 200

LONGEST = 64 << 20
"""Bytes of an event that are read; a prompt with pasted files may be long."""


def main() -> int:
    """Handle one event. Returns 0 whatever happens: a hook that fails may stop the agent."""
    try:
        if sys.argv[1:] in (["--help"], ["-h"]) or os.isatty(0):
            _say(1, HELP)
            return 0
        event = json.loads(sys.stdin.buffer.read(LONGEST))
        line = handle(event, agent=sys.argv[1] if len(sys.argv) > 1 else None, environ=os.environ, now=time.time())
        if line is not None:
            _say(1, json.dumps({"systemMessage": line}))
    except Exception as error:
        try:
            _say(2, f"openmem-context-hook: {type(error).__name__}")
        except OSError:
            return 0  # nobody listens
    return 0


def _say(descriptor: int, line: str) -> None:
    """Write a line past Python's buffers, which fail once more at the end; a closed stream must not be another's."""
    os.write(descriptor, f"{line}\n".encode())


def handle(event: Mapping[str, object], *, agent: str | None, environ: Mapping[str, str], now: float) -> str | None:
    """Carry out one event and return the one line for the person at the agent, or None.

    `event` as the agent wrote it, `agent` as this hook was installed, `now` seconds since the epoch.
    Raises OSError for a store that cannot be written.
    """
    named = event["session_id"]
    session = sanitize(named) if isinstance(named, str) else ""
    if not session:
        return None
    folder = os.path.join(state_directory(environ), "context", "sessions")
    place = os.path.join(folder, session)
    if event.get("hook_event_name") == "SessionStart" or not os.path.exists(f"{place}.json"):
        _prepare(folder)
        _register(f"{place}.json", event, agent=agent, environ=environ, now=now)
    if event.get("hook_event_name") != "UserPromptSubmit":
        return None
    if COMMAND in str(event.get("prompt", "")).split():
        return _force(f"{place}.force")
    return said(_taken(f"{place}.notice"))


def said(notices: Sequence[Mapping[str, int]]) -> str | None:
    """Return the one line for what the proxy left to say, oldest first; None for nothing.

    Several trims since the last prompt are one line: what they moved adds up, what is kept is as of the last.
    """
    trims = [each for each in notices if "moved" in each]
    if trims:
        moved, kept = sum(each["moved"] for each in trims), trims[-1]["kept"]
        return f"openmem: {_thousands(moved)} tokens moved to search, {kept} message{'' if kept == 1 else 's'} kept"
    untrimmed = [each["untrimmed"] for each in notices if "untrimmed" in each]
    if untrimmed:
        return (
            f"openmem: this session is at {_thousands(untrimmed[-1])} tokens and is not trimmed, because its agent "
            "has no search tools: register them with ./run.sh install and start it again"
        )
    return None


def sanitize(raw: str) -> str:
    """Return the id that names a session's files, empty where nothing is left."""
    session = "".join(each if each in SAFE else "_" for each in raw.strip(SPACE))
    if len(session) > MOST:
        import hashlib  # next to no id is this long

        session = f"{session[: MOST - 17]}-{hashlib.sha256(session.encode()).hexdigest()[:16]}"
    return session


def state_directory(environ: Mapping[str, str]) -> str:
    """Return `$OPENMEM_STATE_DIR` by the rule of the settings, which are too heavy to import here."""
    value = environ.get("OPENMEM_STATE_DIR", "").strip(SPACE) or "~/.local/share/openmem"
    return _absolute(value, environ)


def bank(environ: Mapping[str, str]) -> str | None:
    """Return the memory bank of new sessions: `CONTEXT_COMPACTION_BANK`, else `bank` of `[compaction]`, else None."""
    named = environ.get("CONTEXT_COMPACTION_BANK", "").strip(SPACE)
    if named:
        return named
    config = environ.get("OPENMEM_CONFIG", "").strip(SPACE) or "~/.config/openmem/config.toml"
    try:
        with open(_absolute(config, environ), "rb") as file:
            import tomllib  # only where there is a file: it costs as much as all other imports

            found = tomllib.load(file).get("compaction", {}).get("bank")
    except (OSError, ValueError, AttributeError):
        return None  # the proxy's start names what is wrong with the file
    return found if isinstance(found, str) and found else None


def _absolute(path: str, environ: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        path = (environ.get("HOME") or os.path.expanduser("~")) + path[1:]
    return os.path.abspath(path)


def _prepare(folder: str) -> None:
    for directory in (os.path.dirname(folder), folder):
        os.makedirs(directory, mode=0o700, exist_ok=True)


def _register(
    path: str, event: Mapping[str, object], *, agent: str | None, environ: Mapping[str, str], now: float
) -> None:
    registration = {
        "session_id": event["session_id"],
        "agent": agent,
        "cwd": event.get("cwd") or os.getcwd(),
        "bank": bank(environ),
        "registered_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now)),
    }
    content = json.dumps(registration, ensure_ascii=False).encode(errors="replace") + b"\n"
    folder, name = os.path.split(path)
    scratch = os.path.join(folder, f".{name}.{os.getpid():08x}")
    _write(scratch, content, os.O_TRUNC)
    os.replace(scratch, path)


def _force(path: str) -> str:
    try:
        _write(path, b"", 0)
    except OSError as error:
        return NOT_RAISED.format(reason=error.strerror)
    return RAISED


def _taken(path: str) -> list[dict[str, int]]:
    """Return what the proxy wrote to a file, and take the file away; it may be writing the next line meanwhile."""
    folder, name = os.path.split(path)
    mine = os.path.join(folder, f".{name}.{os.getpid():08x}")
    try:
        os.rename(path, mine)
    except FileNotFoundError:
        return []
    try:
        with open(mine, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    finally:
        os.unlink(mine)


def _write(path: str, content: bytes, flags: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    try:
        os.write(descriptor, content)
    finally:
        os.close(descriptor)


def _thousands(tokens: int) -> str:
    return f"{round(tokens / 1000)}k" if tokens >= 1000 else str(tokens)


if __name__ == "__main__":
    sys.exit(main())
