"""Hold the look at each agent to what it would really run, read and trust."""

import datetime
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from openmem_addon import hosts
from openmem_addon.commands import agentcheck, certificate, install, mitm, probe, trust, wiring
from openmem_addon.commands.certificate import Authority
from openmem_addon.commands.finding import Finding, Scene
from openmem_addon.commands.supervisor import Plan, Supervisor, python_command
from openmem_addon.commands.wiring import Wanted
from openmem_store import version
from openmem_store.settings import Settings

from tests.addon.commands.conftest import listening

NOW = datetime.datetime.now(datetime.UTC)
ROOT = Path(__file__).parents[3]

AGENTS = ("claude", "codex", "opencode")


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    environ = {"HOME": str(tmp_path), "PATH": str(tmp_path / "bin")}
    settings = Settings(root=tmp_path / "state" / "context")
    (tmp_path / "bin").mkdir()
    return Scene(settings, environ, tmp_path, probe.free_port("127.0.0.1"), Authority(tmp_path / "certs"), NOW)


@pytest.fixture
def trusted(scene: Scene) -> Scene:
    """A machine whose certificate was made."""
    certificate.ensure(scene.authority.directory, hosts.PROVIDERS, now=NOW)
    trust.write_bundles(scene.authority, {})
    return scene


@pytest.fixture
def proxied(trusted: Scene, empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    """The same with a proxy on the port, on the store of the scene."""
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(trusted.settings.root.parent))
    arguments = mitm.arguments(
        mitm.with_port((), trusted.port),
        script=ROOT / "addon" / "main.py",
        confdir=trusted.authority.directory,
        roots=trusted.authority.roots,
        allowed=hosts.PROVIDERS,
    )
    plan = Plan(
        command=python_command(sys.executable, arguments),
        host=mitm.LOOPBACK,
        port=trusted.port,
        version=version.code_hash(),
        root=str(trusted.settings.root),
        log=trusted.settings.root.parent / "proxy.log",
    )
    supervisor = Supervisor(plan, report=print)
    supervisor.begin()
    yield trusted
    supervisor.stop()


def program(scene: Scene, agent: str, script: str) -> None:
    path = scene.home / "bin" / agent
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def shell(scene: Scene, **variables: str) -> Scene:
    """A shell that leads to the proxy."""
    environ = {**scene.environ, "HTTPS_PROXY": f"http://127.0.0.1:{scene.port}", **variables}
    return msgspec.structs.replace(scene, environ=environ)


def test_no_agent_is_no_problem(scene: Scene) -> None:
    assert list(agentcheck.agents(scene)) == [Finding("note", "agents", "none found")]


def test_a_program_that_is_not_on_the_path_is_named(scene: Scene) -> None:
    assert list(agentcheck.program(scene, "codex")) == [
        Finding("note", "codex", "Codex is not on PATH", "npm install -g @openai/codex")
    ]


def test_the_page_names_what_was_tried_of_each_agent() -> None:
    for title in ("Claude Code", "Codex", "OpenCode"):
        assert len(agentcheck.tried(title)) == 1
    assert agentcheck.tried("Gemini") == set()


def test_the_version_that_was_tried_is_fine_and_another_is_noted(scene: Scene) -> None:
    [tried] = agentcheck.tried("Codex")
    program(scene, "codex", f"echo codex-cli {tried}")
    assert list(agentcheck.program(scene, "codex")) == [Finding("ok", "codex", f"Codex {tried}")]
    program(scene, "codex", "echo codex-cli 9.8.7-alpha.1")
    assert list(agentcheck.program(scene, "codex")) == [
        Finding("note", "codex", f"Codex 9.8.7-alpha.1; what was tried is {tried} (docs/compatibility.md)")
    ]


def test_without_the_page_the_version_alone_is_said(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agentcheck, "PAGE", scene.home / "none.md")
    program(scene, "codex", "echo 9.8.7")
    assert list(agentcheck.program(scene, "codex")) == [Finding("ok", "codex", "Codex 9.8.7")]


@pytest.mark.parametrize("script", ["echo nothing of a version", "exit 3", "exec tail -f /dev/null"])
def test_a_program_that_does_not_say_its_version_is_a_problem(
    scene: Scene, script: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agentcheck, "PATIENCE_S", 0.3)
    program(scene, "codex", f"PATH=/usr/bin:/bin; {script}")
    [found] = agentcheck.program(scene, "codex")
    assert (found.mark, found.fix) == ("problem", f"run {scene.home}/bin/codex --version")


def test_its_configuration_is_compared_with_what_install_would_write(scene: Scene) -> None:
    (scene.home / ".claude").mkdir()
    [missing] = agentcheck.configuration(scene, "claude")
    assert (missing.mark, missing.fix) == ("note", "./run.sh install --agent claude"), "it is not on PATH"
    program(scene, "claude", "echo 9.8.7")
    [missing] = agentcheck.configuration(scene, "claude")
    assert (missing.mark, missing.fix) == ("problem", "./run.sh install --agent claude")
    programs = install.programs(scene.environ)
    for wire in wiring.wires("claude", scene.home, scene.environ, programs, Wanted(hooks=True, at_once=True)):
        wire.path.write_text(wire.put(wire.empty))
    assert list(agentcheck.configuration(scene, "claude")) == [
        Finding("ok", "claude", "Claude Code has the search tools, and hooks")
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_before_the_certificate_is_made_there_is_nothing_to_trust(scene: Scene, agent: str) -> None:
    assert list(agentcheck.by_launcher(scene, agent)) == []


@pytest.mark.parametrize("agent", AGENTS)
def test_without_a_proxy_the_certificate_is_looked_for_in_what_the_agent_is_told(trusted: Scene, agent: str) -> None:
    [found] = agentcheck.by_launcher(trusted, agent)
    assert found == Finding("ok", agent, f"trusts the proxy when ./run.sh {agent} starts it")
    for path in (trusted.authority.bundle, trusted.authority.certificate):
        path.write_bytes(trusted.authority.roots.read_bytes())
    other = certificate.ensure(trusted.home / "other", hosts.PROVIDERS, now=NOW)
    trusted.authority.certificate.write_bytes(other.certificate.read_bytes())
    [found] = agentcheck.by_launcher(shell(trusted, NODE_EXTRA_CA_CERTS="/any/roots.pem"), agent)
    assert found.mark == "problem"


def test_what_another_program_on_the_port_would_show_is_not_asked_for(trusted: Scene) -> None:
    """Its handshake fails, and the advice to remove our certificates would be wrong."""
    with listening(None, {}) as port:
        taken = msgspec.structs.replace(trusted, port=port)
        for agent in AGENTS:
            [found] = agentcheck.by_launcher(taken, agent)
            assert found == Finding("ok", agent, f"trusts the proxy when ./run.sh {agent} starts it")
            assert list(agentcheck.by_hand(shell(taken), agent)) == []


def test_each_agent_is_held_to_a_handshake_with_exactly_what_it_is_told(proxied: Scene) -> None:
    """With one proxy for all, as it takes seconds to start."""
    bundle, roots = str(proxied.authority.bundle), str(proxied.authority.roots)
    for agent in AGENTS:
        [found] = agentcheck.by_launcher(proxied, agent)
        assert found == Finding("ok", agent, f"trusts the proxy when ./run.sh {agent} starts it")
        [found] = agentcheck.by_hand(shell(proxied), agent)
        assert (found.mark, "would not trust the proxy" in found.said) == ("problem", True)
        assert list(agentcheck.by_hand(proxied, agent)) == [], "this shell leads nowhere"
        assert list(agentcheck.by_hand(shell(proxied, SSL_CERT_FILE=bundle), agent)) == []
        [found] = agentcheck.by_hand(shell(proxied, SSL_CERT_FILE=roots), agent)
        assert found.mark == "problem"
    node = shell(proxied, NODE_EXTRA_CA_CERTS=bundle)
    assert list(agentcheck.by_hand(node, "claude")) == []
    [found] = agentcheck.by_hand(node, "codex")
    assert found.fix == f"export CODEX_CA_CERTIFICATE={bundle}, or start it with ./run.sh codex"
    first = shell(proxied, CODEX_CA_CERTIFICATE=roots, SSL_CERT_FILE=bundle)
    assert [found.mark for found in agentcheck.by_hand(first, "codex")] == ["problem"]
    assert list(agentcheck.shell(shell(proxied))) == []


def test_a_shell_that_leads_to_nothing_is_said_once(trusted: Scene) -> None:
    [found] = agentcheck.shell(shell(trusted))
    assert found.fix == "start the proxy with ./run.sh, or unset HTTPS_PROXY"
    assert list(agentcheck.by_hand(shell(trusted), "claude")) == []


@pytest.mark.parametrize("value", ["", "http://proxy.example:3128", "http://127.0.0.1:port", "127.0.0.1"])
def test_a_shell_that_leads_elsewhere_is_not_ours(trusted: Scene, value: str) -> None:
    assert list(agentcheck.shell(shell(trusted, HTTPS_PROXY=value))) == []


def test_what_leads_past_the_proxy_is_noted(scene: Scene) -> None:
    away = shell(scene, NO_PROXY="api.anthropic.com")
    [found] = agentcheck.past_the_proxy(away, "claude")
    assert found.mark == "note"
    assert found.said.startswith("NO_PROXY names api.anthropic.com")
