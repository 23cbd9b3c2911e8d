"""Own what doctor looks at in an agent: its program and version, its configuration, and whom it would trust."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
from openmem_store import settings as stored

from openmem_addon.commands import (
    checkout,
    environment,
    install,
    integration,
    launch,
    mitm,
    preferences,
    probe,
    trust,
    wiring,
)
from openmem_addon.commands.clients import CLIENTS
from openmem_addon.commands.finding import Finding, Scene
from openmem_addon.commands.wiring import Wanted

PATIENCE_S = 10.0
"""For an agent to say its version; the slowest takes two seconds."""

PAGE = checkout.ROOT / "docs" / "compatibility.md"

_HERE = ("localhost", "127.0.0.1", "::1")
_VERSION = re.compile(r"\d+\.\d+\.\d+[\w.-]*")


class Reads(msgspec.Struct, frozen=True):
    """Which variables a client takes certificates from, as each was tried alone."""

    variables: tuple[str, ...]
    first: bool
    """The first that is set decides; False: all that are set count."""


_NODE = Reads(("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"), first=False)

READS = {
    "claude": _NODE,
    "codex": Reads(("CODEX_CA_CERTIFICATE", "SSL_CERT_FILE"), first=True),
    "opencode": _NODE,
}


def agents(scene: Scene) -> Iterator[Finding]:
    """Look at each agent that is here."""
    found = install.found(scene.home, scene.environ)
    if not found:
        yield Finding("note", "agents", "none found")
    for agent in found:
        yield from program(scene, agent)
        yield from configuration(scene, agent)
        yield from by_launcher(scene, agent)
        yield from by_hand(scene, agent)
        yield from past_the_proxy(scene, agent)


def program(scene: Scene, agent: str) -> Iterator[Finding]:
    """Name the version, and the one that was tried where it is another."""
    title = CLIENTS[agent].title
    try:
        [path] = launch.find(agent, (), scene.environ)
    except FileNotFoundError:
        yield Finding("note", agent, f"{title} is not on PATH", CLIENTS[agent].install)
        return
    version = _version(path, scene.environ)
    if version is None:
        yield Finding("problem", agent, f"{path} does not say its version", f"run {shlex.quote(path)} --version")
    elif version in (known := tried(title)) or not known:
        yield Finding("ok", agent, f"{title} {version}")
    else:
        said = f"{title} {version}; what was tried is {', '.join(sorted(known))} (docs/compatibility.md)"
        yield Finding("note", agent, said)


def tried(title: str) -> set[str]:
    """Return the versions of a client in the page on compatibility; none where there is no page."""
    try:
        rows = [[cell.strip() for cell in line.split("|")] for line in PAGE.read_text().splitlines() if "|" in line]
    except OSError:
        return set()
    return {row[2] for row in rows if row[1].startswith(title) and _VERSION.fullmatch(row[2])}


def configuration(scene: Scene, agent: str) -> Iterator[Finding]:
    """Look at what its configuration says of us."""
    title = CLIENTS[agent].title
    provider = integration.is_provider(stored.config_path(scene.environ))
    missing = list(_unwired(scene, agent, hooks=not provider))
    if missing:
        said = f"our entries are missing or old in {', '.join(map(preferences.readable, missing))}"
        # Who has left an agent's folder behind misses nothing.
        here = shutil.which(CLIENTS[agent].command, path=scene.environ.get("PATH"))
        yield Finding("problem" if here else "note", agent, said, f"./run.sh install --agent {agent}")
    else:
        hooks = "the provider's hooks" if provider else "hooks" if agent != "opencode" else "no hooks"
        yield Finding("ok", agent, f"{title} has the search tools, and {hooks}")


def by_launcher(scene: Scene, agent: str) -> Iterator[Finding]:
    """Look whether it trusts the proxy when ./run.sh starts it, with exactly what it is told then."""
    if not scene.authority.bundle.is_file():
        return
    told = trust.variables(scene.authority, scene.environ)
    environ = environment.through_proxy(scene.environ, port=scene.port, trust=told)
    if accepts(scene, agent, environ):
        yield Finding("ok", agent, f"trusts the proxy when ./run.sh {agent} starts it")
    else:
        said = f"would not trust the proxy: {CLIENTS[agent].trusts} will name {told[CLIENTS[agent].trusts]}"
        yield Finding("problem", agent, said, "remove the .pem files in certs, and start the proxy again")


def by_hand(scene: Scene, agent: str) -> Iterator[Finding]:
    """Look whether it trusts the proxy when this shell starts it, where the shell leads it there."""
    if not _leads_here(scene) or not probe.forwards(mitm.LOOPBACK, scene.port) or accepts(scene, agent, scene.environ):
        return
    variable = CLIENTS[agent].trusts
    path = shlex.quote(trust.variables(scene.authority, scene.environ)[variable])
    said = f"started in this shell it would not trust the proxy: {variable} does not name its certificate"
    yield Finding("problem", agent, said, f"export {variable}={path}, or start it with ./run.sh {agent}")


def past_the_proxy(scene: Scene, agent: str) -> Iterator[Finding]:
    """Look for what would lead its requests past the proxy, also when ./run.sh starts it."""
    for line in environment.bypasses(scene.environ, preferences.provider_hosts(scene.settings), CLIENTS[agent]):
        yield Finding("note", agent, line)


def shell(scene: Scene) -> Iterator[Finding]:
    """Look whether this shell leads programs to a proxy that is not there."""
    if _leads_here(scene) and probe.is_free(mitm.LOOPBACK, scene.port):
        said = f"HTTPS_PROXY leads to port {scene.port}, where nothing answers"
        yield Finding("problem", "shell", said, "start the proxy with ./run.sh, or unset HTTPS_PROXY")


def accepts(scene: Scene, agent: str, environ: Mapping[str, str]) -> bool:
    """Say whether an agent with this environment accepts the certificate that the proxy shows.

    By a handshake through the proxy with each file alone; where no forward proxy of ours holds the port, by looking
    for the certificate in it: what another program would show says nothing of ours.
    """
    reads = READS[agent]
    files = [Path(value) for name in reads.variables if (value := environ.get(name))]
    ours = probe.forwards(mitm.LOOPBACK, scene.port)
    for path in files[:1] if reads.first else files:
        if ours:
            if probe.trusted(mitm.LOOPBACK, scene.port, path):
                return True
        elif set(trust.certificates([scene.authority.certificate])) <= set(trust.certificates([path])):
            return True
    return False


def _leads_here(scene: Scene) -> bool:
    value = scene.environ.get("https_proxy") or scene.environ.get("HTTPS_PROXY") or ""
    try:
        parts = urlsplit(value if "://" in value else f"http://{value}")
        return parts.hostname in _HERE and parts.port == scene.port
    except ValueError:
        return False


def _version(path: str, environ: Mapping[str, str]) -> str | None:
    try:
        asked = subprocess.run(
            [path, "--version"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=PATIENCE_S,
            env=dict(environ),
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = _VERSION.search(asked.stdout)
    return said.group() if said else None


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
