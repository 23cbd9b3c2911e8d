"""Own what each agent's own configuration says about us: which file, under which keys, and how it is told from others'.

Pure: takes a file's text, returns another. Who reads, writes and keeps copies is the ledger's business.
"""

import shlex
import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec

from openmem_addon.commands import jsontext, tomltext

SERVER = "openmem"
OTHER_SERVER = "openmem-context"
"""Taken where a person has a server of the first name that is not ours."""

MCP_PROGRAM = "openmem-context-mcp"
HOOK_PROGRAM = "openmem-context-hook"

AT_ONCE = "alwaysLoad"

OWNED = frozenset({"type", "command", "args", "env", "environment", "cwd", "url", AT_ONCE})
"""Keys of an agent's entry of our server that are ours to set or to take; a person's or the agent's others stay."""

START_S = 60
"""The server is up within a second; on a machine under load it was not within OpenCode's 5, and the tools were gone."""

PATIENCE = ("timeout", "startup_timeout_sec")
"""Keys of which a person's own value stays."""

MARK = "\ufeff"

EVENTS = ("SessionStart", "UserPromptSubmit")
HOOK_TIMEOUT_S = 10
"""A hook takes some 50 ms; an agent must not wait for one that hangs."""


class Programs(msgspec.Struct, frozen=True):
    """What the agents run."""

    mcp: str
    hook: str
    environ: dict[str, str]
    """Where the store and the settings are, if not in their usual places."""


class Wanted(msgspec.Struct, frozen=True):
    """What a person chose."""

    hooks: bool
    """False: another hook set is in charge, ours is taken out."""
    at_once: bool | None
    """Claude Code loads our tools with the first request instead of when the model asks for them. None: as it is."""


class Wire(msgspec.Struct, frozen=True):
    """One configuration file of an agent."""

    path: Path
    empty: str
    """What stands for a file that is not there."""
    put: Callable[[str], str]
    """Returns the text with our entries. Raises ValueError for a text it cannot change safely."""
    take: Callable[[str, str], str]
    """Returns the text without our entries, given what the file said before we came. Raises ValueError."""


def wires(agent: str, home: Path, environ: Mapping[str, str], programs: Programs, wanted: Wanted) -> tuple[Wire, ...]:
    """Return the files of an agent, one of `AGENTS`."""
    return AGENTS[agent](home, environ, programs, wanted)


def folder(agent: str, home: Path, environ: Mapping[str, str]) -> Path:
    """Return the folder whose presence shows that a person uses an agent."""
    return FOLDERS[agent](home, environ)


def _claude_folder(home: Path, environ: Mapping[str, str]) -> Path:
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home / ".claude")


def claude_file(home: Path, environ: Mapping[str, str]) -> Path:
    """Return the file in which Claude Code keeps its servers, among much else."""
    return Path(environ.get("CLAUDE_CONFIG_DIR") or home) / ".claude.json"


def _codex_folder(home: Path, environ: Mapping[str, str]) -> Path:
    return Path(environ.get("CODEX_HOME") or home / ".codex")


def _opencode_folder(home: Path, environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CONFIG_HOME") or home / ".config") / "opencode"


def _claude(home: Path, environ: Mapping[str, str], programs: Programs, wanted: Wanted) -> tuple[Wire, ...]:
    server: dict[str, object] = {"type": "stdio", "command": programs.mcp, "args": []}
    if programs.environ:
        server["env"] = programs.environ
    if wanted.at_once is not None:
        server[AT_ONCE] = wanted.at_once or None
    return (
        _json_server(claude_file(home, environ), ("mcpServers",), server),
        _json_hooks(_claude_folder(home, environ) / "settings.json", _command(programs, "claude-code"), wanted.hooks),
    )


def _codex(home: Path, environ: Mapping[str, str], programs: Programs, wanted: Wanted) -> tuple[Wire, ...]:
    # Without `required` its first turns may run before the server is up, and so without our tools.
    server: dict[str, tomltext.Value] = {"command": programs.mcp, "required": True, "startup_timeout_sec": START_S}
    if programs.environ:
        server["env"] = programs.environ
    place = _codex_folder(home, environ)
    return (
        _toml_server(place / "config.toml", "mcp_servers", server),
        _json_hooks(place / "hooks.json", _command(programs, "codex"), wanted.hooks),
    )


def _opencode(home: Path, environ: Mapping[str, str], programs: Programs, wanted: Wanted) -> tuple[Wire, ...]:
    place = _opencode_folder(home, environ)
    # All three are read, the last one wins.
    named = [place / name for name in ("opencode.jsonc", "opencode.json", "config.json")]
    server: dict[str, object] = {
        "type": "local",
        "command": [programs.mcp],
        "enabled": True,
        "timeout": START_S * 1000,
    }
    if programs.environ:
        server["environment"] = programs.environ
    return (_json_server(next((path for path in named if path.is_file()), named[1]), ("mcp",), server),)


AGENTS: dict[str, Callable[[Path, Mapping[str, str], Programs, Wanted], tuple[Wire, ...]]] = {
    "claude": _claude,
    "codex": _codex,
    "opencode": _opencode,
}

FOLDERS: dict[str, Callable[[Path, Mapping[str, str]], Path]] = {
    "claude": _claude_folder,
    "codex": _codex_folder,
    "opencode": _opencode_folder,
}


def _command(programs: Programs, agent: str) -> str:
    """Return the shell line of a hook."""
    settings = [f"{name}={shlex.quote(value)}" for name, value in programs.environ.items()]
    return " ".join((*settings, shlex.quote(programs.hook), agent))


def is_our_server(entry: object) -> bool:
    """Return whether an agent's entry of a server starts ours, in whatever way it was registered."""
    if not isinstance(entry, dict):
        return False
    command, arguments = entry.get("command"), entry.get("args")
    words = [str(word) for part in (command, arguments) for word in (part if isinstance(part, list) else [part])]
    ours = any(Path(word).name == MCP_PROGRAM or word == "openmem_store.reader.server" for word in words)
    return ours or ("mcp" in words and any(Path(word).name in ("run.sh", "openmem-context") for word in words))


def _free_name(servers: object) -> str:
    entry = servers.get(SERVER) if isinstance(servers, dict) else None
    return SERVER if entry is None or is_our_server(entry) else OTHER_SERVER


def _our_names(servers: object) -> list[str]:
    named = servers.items() if isinstance(servers, dict) else ()
    return [name for name, entry in named if name in (SERVER, OTHER_SERVER) and is_our_server(entry)]


def _json_server(path: Path, parent: tuple[str, ...], server: Mapping[str, object]) -> Wire:
    """Return the change of a JSON file; a member of None leaves."""
    new = {key: value for key, value in server.items() if value is not None}

    def put(text: str) -> str:
        known = jsontext.find(text, parent)
        place = (*parent, _free_name(known.value if known else None))
        if jsontext.find(text, place) is None:
            return jsontext.put(text, place, new)
        for key, value in new.items():
            if key not in PATIENCE or jsontext.find(text, (*place, key)) is None:
                text = jsontext.put(text, (*place, key), value)
        for key in OWNED - set(new):
            if key in server or key != AT_ONCE:
                text = jsontext.without(text, (*place, key))
        return text

    def take(text: str, original: str) -> str:
        known = jsontext.find(text, parent)
        for name in _our_names(known.value if known else None):
            text = jsontext.without(text, (*parent, name))
        return _tidied(text, original, [parent])

    return _marked(Wire(path, "{}\n", put, take))


def _toml_server(path: Path, parent: str, server: Mapping[str, tomltext.Value]) -> Wire:
    def put(text: str) -> str:
        servers = tomllib.loads(text).get(parent)
        name = _free_name(servers)
        known = servers.get(name) if isinstance(servers, dict) else None
        chosen = {key: known[key] for key in PATIENCE if isinstance(known, dict) and key in known}
        return tomltext.put(text, (parent, name), {**server, **chosen}, owned=OWNED)

    def take(text: str, original: str) -> str:
        left = text
        for name in _our_names(tomllib.loads(text).get(parent)):
            left = tomltext.without(left, (parent, name))
        # We ended a last line that had no end.
        if original and not original.endswith("\n") and left != text and text.startswith(left):
            left = left.removesuffix("\n").removesuffix("\r")
        return left

    return _marked(Wire(path, "", put, take))


def _json_hooks(path: Path, command: str, wanted: bool) -> Wire:
    hook = {"type": "command", "command": command, "timeout": HOOK_TIMEOUT_S}

    def put(text: str) -> str:
        if not wanted:
            return take(text, text)
        for event in EVENTS:
            if hook in _hooks_of(text, event):
                continue
            text = jsontext.append(_without_ours(text, event), ("hooks", event), {"hooks": [hook]})
        return text

    def take(text: str, original: str) -> str:
        for event in EVENTS:
            text = _without_ours(text, event)
        return _tidied(text, original, [("hooks", event) for event in EVENTS] + [("hooks",)])

    return _marked(Wire(path, "{}\n", put, take))


def _marked(wire: Wire) -> Wire:
    """Return a wire for files that may begin with a byte order mark, as some editors write it: it stays first."""

    def put(text: str) -> str:
        return _mark(text) + wire.put(text.removeprefix(MARK))

    def take(text: str, original: str) -> str:
        return _mark(text) + wire.take(text.removeprefix(MARK), original.removeprefix(MARK))

    return Wire(wire.path, wire.empty, put, take)


def _mark(text: str) -> str:
    return MARK if text.startswith(MARK) else ""


def _hooks_of(text: str, event: str) -> list[object]:
    return [hook for _, _, hook in _placed(text, event)]


def _placed(text: str, event: str) -> Iterable[tuple[int, int, object]]:
    """Yield the place of its group, its own place and the value of every hook of an event."""
    groups = jsontext.find(text, ("hooks", event))
    for outer, group in enumerate(groups.value if groups and isinstance(groups.value, list) else ()):
        hooks = group.get("hooks") if isinstance(group, dict) else None
        for inner, hook in enumerate(hooks if isinstance(hooks, list) else ()):
            yield outer, inner, hook


def _without_ours(text: str, event: str) -> str:
    """Return the text without our hooks of an event; a group goes with its last hook."""
    for outer, inner, hook in reversed(list(_placed(text, event))):
        if isinstance(hook, dict) and HOOK_PROGRAM in str(hook.get("command")):
            alone = sum(place == outer for place, _, _ in _placed(text, event)) == 1
            if alone:
                text = jsontext.without(text, ("hooks", event), outer)
            else:
                text = _without_inner(text, event, outer, inner)
    return text


def _without_inner(text: str, event: str, outer: int, inner: int) -> str:
    """Return the text without one hook of a group that has others."""
    groups = jsontext.find(text, ("hooks", event))
    assert groups is not None
    group = groups.children[outer].node
    part = jsontext.without(text[group.start : group.stop], ("hooks",), inner)
    return text[: group.start] + part + text[group.stop :]


def _tidied(text: str, original: str, paths: Iterable[tuple[str, ...]]) -> str:
    """Return the text without those of the objects and arrays that are empty now and were not there before us.

    One that was there and empty gets its blanks again.
    """
    for path in (*paths, ()):
        found, known = jsontext.find(text, path), jsontext.find(original, path)
        if found is None or found.children:
            continue
        if known is None:
            text = jsontext.without(text, path)
            continue
        now, before = text[found.start : found.stop], original[known.start : known.stop]
        if "".join(now.split()) == "".join(before.split()):
            text = text[: found.start] + before + text[found.stop :]
    return text
