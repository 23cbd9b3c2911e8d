"""Own `doctor`: what may be wrong on this machine, each with the line that mends it."""

import asyncio
import contextlib
import datetime
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import apsw
from openmem_store import settings as stored
from openmem_store import version
from openmem_store.layout import Layout

from openmem_addon import switch
from openmem_addon.commands import agentcheck, certificate, checkout, install, mitm, preferences, probe, terminal
from openmem_addon.commands.certificate import Authority
from openmem_addon.commands.finding import Finding, Scene
from openmem_addon.switch import Switch

HELP = """\
usage: ./run.sh doctor [--port N]

Looks at Python, SQLite, the settings, the store, the certificate, the port, the search server, and of each agent at its
version, its configuration and whether it will trust the proxy. Each problem comes with the line that mends it. Exit
code 1 when there is one."""

LEAST_FREE = 1 << 30
"""Bytes: a long session's database takes tens of megabytes."""

PATIENCE_S = 30.0
"""For the search server's first answer; it takes a second or two."""


_BEFORE_ANY = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""A time at which no certificate of ours has expired: what is wrong with one then is something else."""

_SWITCHED: dict[Switch, str] = {
    "on": "not switched off",
    "off": "switched off: nothing new is removed, compressed or explained",
    "raw": "raw: everything is sent whole and nothing is stored",
}


def main(name: str, words: list[str]) -> int:
    """Print the findings. Returns 1 when one is a problem, 2 for words that are none of ours."""
    if words in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        port = _port(words)
    except ValueError:
        print(f"openmem-context: {HELP}", file=sys.stderr)
        return 2
    try:
        loaded = stored.load(os.environ)
    except ValueError as error:
        show(Finding("problem", "settings", str(error), "correct the value, or take it out"))
        return 1
    scene = Scene(
        settings=loaded.settings,
        environ=os.environ,
        home=Path(os.environ.get("HOME") or Path.home()),
        port=port,
        authority=Authority(checkout.CERTIFICATES),
        now=datetime.datetime.now(datetime.UTC),
        ignored=loaded.warnings,
    )
    problems = 0
    for finding in examine(scene):
        problems += finding.mark == "problem"
        show(finding)
    style = "bold red" if problems else "green"
    terminal.put([((f"{problems} problem{'' if problems == 1 else 's'}", style),)])
    return 1 if problems else 0


def examine(scene: Scene) -> Iterator[Finding]:
    """Yield the findings, the quick ones first. Never raises for what it looks at."""
    for check in CHECKS:
        yield from check(scene)


def show(finding: Finding) -> None:
    """Print a finding as soon as it is there."""
    if terminal.console(sys.stdout) is None:
        print(finding, flush=True)
    else:
        terminal.put(finding.lines())


def python(scene: Scene) -> Iterator[Finding]:
    """Name the interpreter; `run.sh` has refused one that is too old."""
    found = f"{platform.python_version()} in {Path(sys.executable).parent}, code {version.code_hash()}"
    yield Finding("ok", "python", found)


def sqlite(scene: Scene) -> Iterator[Finding]:
    found = f"{apsw.sqlite_lib_version()} by apsw {apsw.apsw_version()}"
    if "ENABLE_FTS5" in apsw.compile_options:
        yield Finding("ok", "sqlite", f"{found}, with full-text search")
    else:
        yield Finding("problem", "sqlite", f"{found}, without full-text search", "remove .venv and run ./run.sh again")


def settings(scene: Scene) -> Iterator[Finding]:
    """Look for names that are almost those of settings: they change nothing."""
    for line in scene.ignored:
        yield Finding("problem", "settings", line, "correct it; the README's table has the names")
    for name, meant in preferences.meant_by(scene.environ):
        said = f"the variable {name} is no setting, and does nothing"
        yield Finding("problem", "settings", said, f"{meant} is one")
    if not scene.ignored:
        path = stored.config_path(scene.environ)
        place = preferences.readable(path)
        yield Finding("ok", "settings", place if path.exists() else f"the defaults: there is no {place}")


def store(scene: Scene) -> Iterator[Finding]:
    root = scene.settings.root
    place = preferences.readable(root)
    if not root.exists():
        yield Finding("note", "store", f"{place} is not there yet: nothing was stored")
        return
    if not os.access(root, os.W_OK | os.X_OK):
        yield Finding("problem", "store", f"{place} cannot be written", f"chown -R \"$USER\" '{root}'")
        return
    layout = Layout(root)
    everything = [root, *layout.sessions.glob("*"), *layout.blobs.glob("*")]
    loose = [path for path in everything if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    if loose:
        fix = f"chmod -R go-rwx '{root}'"
        yield Finding("problem", "store", f"{len(loose):,} files in {place} are open to others", fix)
    else:
        yield Finding("ok", "store", f"{place}, for you alone")


def switches(scene: Scene) -> Iterator[Finding]:
    """Name what a person switched off, and may have forgotten."""
    layout = Layout(scene.settings.root)
    try:
        off: dict[str, Switch] = {
            path.stem: switch.read(layout, path.stem) for path in sorted(layout.sessions.glob("*.off"))
        }
        held = switch.read(layout, None)
    except OSError as error:
        said = f"{preferences.readable(Path(error.filename))} cannot be read: {error.strerror}"
        yield Finding("problem", "switch", said, f"chown -R \"$USER\" '{layout.root}'")
        return
    if held != "on":
        yield Finding("note", "switch", f"all sessions: {_SWITCHED[held]}", "./run.sh on")
    for sid, held in off.items():
        if held != "on":
            yield Finding("note", "switch", f"session {sid}: {_SWITCHED[held]}", f"./run.sh on {sid}")


def disk(scene: Scene) -> Iterator[Finding]:
    folder = next(path for path in (scene.settings.root, *scene.settings.root.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    said = f"{free / 1e9:.1f} GB free for the store"
    if free < LEAST_FREE:
        yield Finding("problem", "disk", said, "make room, or ./run.sh forget old sessions")
    else:
        yield Finding("ok", "disk", said)


def trust(scene: Scene) -> Iterator[Finding]:
    """Look at the certificate that the launcher hands to each agent."""
    authority = scene.authority
    if not authority.key.is_file():
        yield Finding("note", "certificate", "not made yet: the first start of the proxy makes it")
        return
    if stat.S_IMODE(authority.key.stat().st_mode) & 0o077:
        yield Finding("problem", "certificate", "its key is open to others", f"chmod 600 '{authority.key}'")
    if not certificate.is_current(authority, preferences.provider_hosts(scene.settings), now=scene.now):
        in_time = certificate.is_current(authority, preferences.provider_hosts(scene.settings), now=_BEFORE_ANY)
        said = "expires soon, or has expired" if in_time else "is not for exactly the provider hosts of the settings"
        yield Finding("note", "certificate", said, "start the proxy again: it makes a new one by itself")
    elif not authority.bundle.is_file():
        said = f"{authority.bundle.name} is missing, which agents are told to trust"
        yield Finding("problem", "certificate", said, "start an agent with ./run.sh: it is written anew")
    else:
        yield Finding("ok", "certificate", "for the provider hosts alone; each agent gets it from ./run.sh")


def port(scene: Scene) -> Iterator[Finding]:
    holder = probe.holder(mitm.LOOPBACK, scene.port)
    health = holder.health
    if health is None:
        if holder.held == "free":
            yield Finding("ok", "port", f"{scene.port} is free: the next ./run.sh claude starts a proxy")
        else:
            fix = "stop that program, or use --own-proxy (./run.sh claude --own-proxy)"
            yield Finding("problem", "port", f"{scene.port} is taken by another program", fix)
        return
    if health.version != version.code_hash():
        said = f"the proxy on {scene.port} runs other code ({health.version})"
        yield Finding("problem", "proxy", said, f"kill {health.pid}, and start again")
    elif health.root not in (None, str(scene.settings.root)):
        said = f"the proxy on {scene.port} stores in {health.root}"
        yield Finding("problem", "proxy", said, f"kill {health.pid}, or set OPENMEM_STATE_DIR as it was started with")
    else:
        forwards = probe.forwards(mitm.LOOPBACK, scene.port)
        kind = "" if forwards else " as a reverse proxy"
        yield Finding("ok", "proxy", f"on {scene.port}{kind}, process {health.pid}, on this code")
        # A reverse proxy is spoken to in the clear, and shows no certificate.
        if forwards and not probe.trusted(mitm.LOOPBACK, scene.port, scene.authority.bundle):
            said = "an agent would not accept the certificate that the proxy shows"
            yield Finding("problem", "certificate", said, f"kill {health.pid}, and start again")


def memory(scene: Scene) -> Iterator[Finding]:
    """Ask the memory provider as a trim does, where new sessions have a bank."""
    if not scene.settings.bank:
        return
    from openmem_addon.recall import Recall  # brings an HTTP client along: not before it is needed

    lines: list[str] = []
    asyncio.run(Recall(scene.settings, lines.append).ask(scene.settings.bank, ""))
    place = f"{scene.settings.recall_url}, bank {scene.settings.bank}"
    if lines:
        said = f"{place}: {lines[0].removeprefix('openmem-context: ')}"
        yield Finding("problem", "memory", said, "start it, or correct `bank` and `url` under [compaction]")
    else:
        yield Finding("ok", "memory", place)


def programs(scene: Scene) -> Iterator[Finding]:
    """Look for what the agents' configuration names."""
    told = install.programs(scene.environ)
    gone = [path for path in (told.mcp, told.hook) if not os.access(path, os.X_OK)]
    if gone:
        said = f"{', '.join(gone)} cannot be run"
        yield Finding("problem", "programs", said, "remove .venv and run ./run.sh status, which sets it up anew")
    else:
        yield from _server(Path(told.mcp), scene.environ)


def _server(program: Path, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Ask the search server for its tools, as an agent does."""
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "doctor", "version": "1"}}
    asked = (
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
    )
    mended = "run ./run.sh mcp and read what it says"
    try:
        server = subprocess.Popen(
            [str(program)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            text=True,
        )
    except OSError as error:
        yield Finding("problem", "search", f"{program} cannot be run: {error.strerror}", mended)
        return
    assert server.stdin is not None
    assert server.stdout is not None
    late = threading.Timer(PATIENCE_S, server.kill)
    late.start()
    try:
        # Its input stays open until it has answered: a server whose client is gone may end before it does.
        with contextlib.suppress(BrokenPipeError):
            server.stdin.write("".join(json.dumps(each) + "\n" for each in asked))
            server.stdin.flush()
        answered = any('"smart_compact_search"' in line for line in server.stdout)
        with contextlib.suppress(BrokenPipeError):
            server.stdin.close()
        code = server.wait()
    finally:
        late.cancel()
        server.stdout.close()
    if answered:
        yield Finding("ok", "search", "the search server answers")
    else:
        yield Finding("problem", "search", f"the search server ended with code {code} before it answered", mended)


CHECKS: tuple[Callable[[Scene], Iterator[Finding]], ...] = (
    python,
    sqlite,
    settings,
    store,
    switches,
    disk,
    trust,
    port,
    agentcheck.shell,
    agentcheck.agents,
    programs,
    memory,
)


def _port(words: list[str]) -> int:
    if not words:
        return mitm.PORT
    option, _, value = " ".join(words).replace("=", " ").partition(" ")
    if option != "--port" or not value.isdecimal() or not 0 < int(value) < 65536:
        raise ValueError(HELP)
    return int(value)
