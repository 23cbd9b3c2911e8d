"""Own `doctor`: what may be wrong on this machine, each with the line that mends it."""

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
from typing import Literal

import apsw
import msgspec
from openmem_store import settings as stored
from openmem_store import version
from openmem_store.layout import Layout
from openmem_store.settings import Settings

from openmem_addon.commands import certificate, checkout, install, integration, mitm, preferences, probe, wiring
from openmem_addon.commands.certificate import Authority
from openmem_addon.commands.clients import CLIENTS
from openmem_addon.commands.wiring import Wanted

HELP = """\
usage: ./run.sh doctor [--port N]

Looks at Python, SQLite, the store, the certificate, the port, the agents' configuration and the search server. Each
problem comes with the line that mends it. Exit code 1 when there is one."""

LEAST_FREE = 1 << 30
"""Bytes: a long session's database takes tens of megabytes."""

PATIENCE_S = 30.0
"""For the search server's first answer; it takes a second or two."""

Mark = Literal["ok", "note", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    mark: Mark
    what: str
    said: str
    fix: str | None = None
    """What to type or do; None where nothing is wrong."""

    def __str__(self) -> str:
        line = f"{self.mark:<8}{self.what:<12}{self.said}"
        return f"{line}\n{'':<20}→ {self.fix}" if self.fix else line


class Scene(msgspec.Struct, frozen=True):
    """What is looked at."""

    settings: Settings
    environ: Mapping[str, str]
    home: Path
    port: int
    authority: Authority
    now: datetime.datetime


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
        settings = preferences.load()
    except ValueError as error:
        print(Finding("problem", "settings", str(error), "correct the value, or take it out"))
        return 1
    scene = Scene(
        settings=settings,
        environ=os.environ,
        home=Path(os.environ.get("HOME") or Path.home()),
        port=port,
        authority=Authority(checkout.CERTIFICATES),
        now=datetime.datetime.now(datetime.UTC),
    )
    problems = 0
    for finding in examine(scene):
        problems += finding.mark == "problem"
        print(finding, flush=True)
    print(f"{problems} problem{'' if problems == 1 else 's'}")
    return 1 if problems else 0


def examine(scene: Scene) -> Iterator[Finding]:
    """Yield the findings, the quick ones first. Never raises for what it looks at."""
    for check in CHECKS:
        yield from check(scene)


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
        said = "expires soon, or is not for the provider hosts of the settings"
        yield Finding("problem", "certificate", said, "start the proxy again: it makes a new one")
    elif not authority.bundle.is_file():
        said = f"{authority.bundle.name} is missing, which agents are told to trust"
        yield Finding("problem", "certificate", said, "start an agent with ./run.sh: it is written anew")
    else:
        yield Finding("ok", "certificate", "for the provider hosts alone; each agent gets it from ./run.sh")


def port(scene: Scene) -> Iterator[Finding]:
    health = probe.health(mitm.LOOPBACK, scene.port)
    if health is None:
        if probe.is_free(mitm.LOOPBACK, scene.port):
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
        yield Finding("ok", "proxy", f"on {scene.port}, process {health.pid}, on this code")
        if not probe.trusted(mitm.LOOPBACK, scene.port, scene.authority.bundle):
            said = "an agent would not accept the certificate that the proxy shows"
            yield Finding("problem", "certificate", said, f"kill {health.pid}, and start again")


def agents(scene: Scene) -> Iterator[Finding]:
    """Look at each agent's program and at what its configuration says of us."""
    provider = integration.is_provider(stored.config_path(scene.environ))
    found = install.found(scene.home, scene.environ)
    if not found:
        yield Finding("note", "agents", "none found")
    for agent in found:
        title = CLIENTS[agent].title
        if not shutil.which(CLIENTS[agent].command, path=scene.environ.get("PATH")):
            yield Finding("note", agent, f"{title} is not on PATH", CLIENTS[agent].install)
        missing = list(_unwired(scene, agent, hooks=not provider))
        if missing:
            said = f"our entries are missing or old in {', '.join(map(preferences.readable, missing))}"
            yield Finding("problem", agent, said, f"./run.sh install --agent {agent}")
        else:
            hooks = "the provider's hooks" if provider else "hooks" if agent != "opencode" else "no hooks"
            yield Finding("ok", agent, f"{title} has the search tools, and {hooks}")


def _unwired(scene: Scene, agent: str, *, hooks: bool) -> Iterator[Path]:
    programs = install.programs(scene.environ)
    # Loading the tools at once is the person's choice, so either is right.
    either = [
        wiring.wires(agent, scene.home, scene.environ, programs, Wanted(hooks=hooks, at_once=at_once))
        for at_once in (False, True)
    ]
    for first, second in zip(*either, strict=True):
        try:
            text = first.path.read_text() if first.path.exists() else first.empty
            if text not in (first.put(text), second.put(text)):
                yield first.path
        except (OSError, ValueError):
            yield first.path


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
    store,
    disk,
    trust,
    port,
    agents,
    programs,
)


def _port(words: list[str]) -> int:
    if not words:
        return mitm.PORT
    option, _, value = " ".join(words).replace("=", " ").partition(" ")
    if option != "--port" or not value.isdecimal() or not 0 < int(value) < 65536:
        raise ValueError(HELP)
    return int(value)
