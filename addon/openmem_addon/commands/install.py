"""Own `install` and `uninstall`: our entries go into the agents' own configuration, and out of it without a trace."""

import contextlib
import difflib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from openmem_store import settings as stored
from openmem_store.layout import Layout

from openmem_addon.commands import integration, ledger, overflow, preferences, terminal, wiring
from openmem_addon.commands.clients import CLIENTS
from openmem_addon.commands.ledger import Ledger
from openmem_addon.commands.wiring import Programs, Wanted, Wire

INSTALL_HELP = """\
usage: ./run.sh install [--agent claude|codex|opencode] [--dry-run] [--at-once | --on-demand]
                        [--provider-plugin | --no-provider-plugin]

Registers the search tools and the hooks in each agent's own configuration; without --agent, of every agent found.
A copy of each file is kept, and `./run.sh uninstall` brings it back. Run it again after an update or a move.

  --dry-run             show what would change, and change nothing
  --at-once             Claude Code loads the search tools with the first request
  --on-demand           Claude Code loads them when the model asks for them
  --provider-plugin     the memory provider's own hooks are in charge: ours are taken out, the search tools stay
  --no-provider-plugin  back to our hooks"""

UNINSTALL_HELP = """\
usage: ./run.sh uninstall [--agent claude|codex|opencode] [--dry-run]

Takes our entries out of each agent's configuration. What is stored stays; `./run.sh forget --all` deletes it."""

RENAMED = "--hindsight-plugin is now --provider-plugin"

AFTERWARDS = {
    "claude": "restart Claude Code, and start it with ./run.sh claude to have it trimmed",
    "codex": "restart Codex, agree to its new hooks under /hooks, and start it with ./run.sh codex to have it trimmed",
    "opencode": "restart OpenCode, and start it with ./run.sh opencode to have it trimmed",
}

KEEP = (
    "Run ./run.sh uninstall before you delete this folder, and install again after you move it: Codex does not start "
    "without its required tools."
)
"""Said after Codex got its tools."""

COLOURS = {"  - ": "red", "  + ": "green"}
"""Of a changed line on a terminal, by how it begins."""

_FLAGS = {
    "install": ("--dry-run", "--at-once", "--on-demand", "--provider-plugin", "--no-provider-plugin"),
    "uninstall": ("--dry-run",),
}


class Words(msgspec.Struct, frozen=True):
    """What was asked for."""

    agents: tuple[str, ...] = ()
    """Empty for every agent found."""
    dry: bool = False
    at_once: bool | None = None
    """None: ask, where there is somebody to ask."""
    provider: bool | None = None
    """None: as it was settled before."""


def main(name: str, words: Sequence[str]) -> int:
    """Change the agents' configuration. Returns 1 when a file had to be left alone, 2 for words not understood."""
    help_text = INSTALL_HELP if name == "install" else UNINSTALL_HELP
    if list(words) in (["--help"], ["-h"]):
        print(help_text)
        return 0
    try:
        given = parse(name, words)
        settings = preferences.load()
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    book = Ledger(settings.root.parent / "install")
    config = stored.config_path(os.environ)
    home = Path(os.environ.get("HOME") or Path.home())
    if name == "install" and not given.dry:
        try:
            book.check()
        except OSError as error:
            place = preferences.readable(book.folder)
            said = f"what install changes cannot be written down in {place}: {error.strerror}"
            print(f"openmem-context: nothing was changed: {said}", file=sys.stderr)
            return 1
    if name == "uninstall":
        _warn(Layout(settings.root), settings.chars_per_token)
    provider = integration.is_provider(config) if given.provider is None else given.provider
    agents = given.agents or found(home, os.environ)
    if not agents:
        print("openmem-context: no agent was found here: name one with --agent", file=sys.stderr)
        return 1
    failed = False
    chosen = name == "install" and given.provider is not None
    if chosen or (name == "uninstall" and not given.agents):
        failed |= not _settle(config, book, provider=provider and name == "install", dry=given.dry)
    at_once = _agreed(given, agents, book) if name == "install" else None
    for agent in agents:
        wanted = Wanted(hooks=not provider, at_once=at_once)
        wires = wiring.wires(agent, home, os.environ, programs(os.environ), wanted)
        # Backwards on the way out: the first file knows the folder that was made for all of them.
        ordered = wires if name == "install" else tuple(reversed(wires))
        # Of an agent all files change or none: hooks without the search tools, or the reverse, help nobody.
        if name == "install" and [wire for wire in ordered if _refused(wire)]:
            failed = True
            continue
        changed = [change(wire, book, name, dry=given.dry) for wire in ordered]
        failed |= None in changed
        if name == "install" and any(changed) and not given.dry:
            print(f"{CLIENTS[agent].title}: {AFTERWARDS[agent]}")
            if agent == "codex":
                print(KEEP)
        elif any(changed) and not given.dry:
            print(f"{CLIENTS[agent].title}: done; restart it")
        elif not any(changed) and None not in changed:
            print(f"{CLIENTS[agent].title}: nothing to change")
    return 1 if failed else 0


def parse(name: str, words: Sequence[str]) -> Words:
    """Return what the words ask for. Raises ValueError that names the word and the fix."""
    help_text = INSTALL_HELP if name == "install" else UNINSTALL_HELP
    agents: list[str] = []
    flags: set[str] = set()
    parts = [word.split("=", 1) if word.startswith("--agent=") else [word] for word in words]
    rest = iter([part for pair in parts for part in pair])
    for word in rest:
        if word == "--hindsight-plugin":
            raise ValueError(RENAMED)
        if word == "--agent":
            agent = next(rest, "")
            if agent not in wiring.AGENTS:
                raise ValueError(f"--agent {agent!r}: must be one of {', '.join(wiring.AGENTS)}")
            agents.append(agent)
        elif word in _FLAGS[name]:
            flags.add(word)
        else:
            raise ValueError(f"{name} takes no {word!r}\n{help_text}")
    for pair in (("--at-once", "--on-demand"), ("--provider-plugin", "--no-provider-plugin")):
        if flags >= set(pair):
            raise ValueError(f"{pair[0]} and {pair[1]} exclude each other")
    return Words(
        agents=tuple(dict.fromkeys(agents)),
        dry="--dry-run" in flags,
        at_once=_either(flags, "--at-once", "--on-demand"),
        provider=_either(flags, "--provider-plugin", "--no-provider-plugin"),
    )


def found(home: Path, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agents that a person has: their program is there, or their folder."""
    return tuple(
        agent
        for agent in wiring.AGENTS
        if shutil.which(CLIENTS[agent].command, path=environ.get("PATH"))
        or wiring.folder(agent, home, environ).is_dir()
    )


def programs(environ: Mapping[str, str]) -> Programs:
    """Return what the agents are to run: the commands of this very environment, with its store and settings."""
    folder = Path(sys.executable).parent
    told = {name: environ[name] for name in ("OPENMEM_STATE_DIR", "OPENMEM_CONFIG") if environ.get(name)}
    return Programs(str(folder / wiring.MCP_PROGRAM), str(folder / wiring.HOOK_PROGRAM), told)


def change(wire: Wire, book: Ledger, name: str, *, dry: bool) -> bool | None:
    """Change one file and say what changed; return whether anything did, None for a file that was left alone."""
    place = preferences.readable(wire.path)
    try:
        before = _read(wire.path)
        text = before if before is not None and before.strip() else wire.empty
        if name == "uninstall":
            if before is None:
                return False
            undo = book.undone if dry else book.undo
            after = undo(wire.path, wire.take, empty=wire.empty)
            copy = None
        else:
            after = wire.put(text)
            if after == text:
                return False
            copy = None if dry else book.write(wire.path, after.encode(), wire.take, empty=wire.empty)
    except (OSError, ValueError) as error:
        _say_why(wire, error)
        return None
    if (after or "") == (before or ""):
        return False
    if after is None:
        place = f"{place} (the whole file goes)"
    terminal.put([((line, COLOURS.get(line[:4], "")),) for line in diff(before or "", after or "", place)])
    if copy is not None:
        print(f"  (as it was: {preferences.readable(copy)})")
    return True


def _refused(wire: Wire) -> bool:
    """Return whether a file cannot be changed, and say why."""
    try:
        text = _read(wire.path) or ""
        if wire.put(text if text.strip() else wire.empty) != text:
            ledger.check(wire.path)
    except (OSError, ValueError) as error:
        _say_why(wire, error)
        return True
    return False


def _read(path: Path) -> str | None:
    """Return the text of a file, None for one that is not there. Raises OSError, and ValueError for other bytes."""
    try:
        return path.read_bytes().decode()
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ValueError("it is not UTF-8") from None


def _say_why(wire: Wire, error: OSError | ValueError) -> None:
    reason = error.strerror if isinstance(error, OSError) else error
    print(f"openmem-context: {preferences.readable(wire.path)} was left alone: {reason}", file=sys.stderr)


def diff(before: str, after: str, place: str) -> list[str]:
    """Return the lines that came or went, but for a neighbour that gained or lost a comma: it may be a key."""
    lines = list(difflib.ndiff(before.splitlines(), after.splitlines()))
    gone = [line[2:] for line in lines if line.startswith("- ")]
    come = [line[2:] for line in lines if line.startswith("+ ")]
    bare = {line.rstrip(",") for line in gone} & {line.rstrip(",") for line in come}
    changed = [line for line in lines if line[:2] in ("- ", "+ ") and line[2:].rstrip(",") not in bare]
    return [place, *(f"  {line}" for line in changed)]


def _settle(config: Path, book: Ledger, *, provider: bool, dry: bool) -> bool:
    """Save which hook set is in charge; return whether that could be done."""
    wire = integration.wire(config, provider=provider)
    name = "install" if provider else "uninstall"
    return change(wire, book, name, dry=dry) is not None


def _agreed(given: Words, agents: Sequence[str], book: Ledger) -> bool | None:
    """Return whether Claude Code may load the tools at once; it goes on as it does where nobody can be asked, or was.

    Raises nothing for a ledger that cannot be read: each file's change says so.
    """
    if given.at_once is not None or "claude" not in agents:
        return given.at_once
    home = Path(os.environ.get("HOME") or Path.home())
    with contextlib.suppress(ValueError):
        if given.dry or not sys.stdin.isatty() or book.knows(wiring.claude_file(home, os.environ)):
            return None
    print("Load the search tools in Claude Code with the first request (some 1,000 tokens)? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _warn(layout: Layout, chars_per_token: float) -> None:
    """List what will not fit once nothing is left out any more."""
    large = overflow.overflowing(layout, chars_per_token=chars_per_token)
    if large:
        print("Without the proxy these sessions are too large for their model; start them anew instead of resuming:")
        print("\n".join(f"  {each}" for each in large))


def _either(flags: set[str], yes: str, no: str) -> bool | None:
    return True if yes in flags else False if no in flags else None
