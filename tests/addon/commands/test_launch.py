import socket
from pathlib import Path

import pytest
from openmem_addon.commands import launch, probe
from openmem_addon.commands.clients import ANY, CLIENTS
from openmem_addon.commands.launch import Options
from openmem_store.settings import Settings

CLAUDE = CLIENTS["claude"]

# --- words ----------------------------------------------------------------------------------------------------------

WORDS = {
    (): Options(()),
    ("-p", "hello"): Options(("-p", "hello")),
    ("--port", "9", "-p", "hello"): Options(("-p", "hello"), port=9),
    ("--port=9",): Options((), port=9),
    ("--own-proxy", "--no-ca", "x"): Options(("x",), own_proxy=True, no_ca=True),
    ("--proxy-arg", "-s", "--proxy-arg", "a.py", "--resume"): Options(("--resume",), proxy_arguments=("-s", "a.py")),
    ("--proxy-arg=--set", "--proxy-arg=a=b"): Options((), proxy_arguments=("--set", "a=b")),
    ("--", "--port", "9"): Options(("--port", "9")),
    ("-c", "--port", "9"): Options(("-c", "--port", "9")),
    ("--help",): Options((), help=True),
}


@pytest.mark.parametrize(("words", "options"), WORDS.items())
def test_our_options_end_at_the_first_word_of_the_agent(words: tuple[str, ...], options: Options) -> None:
    assert launch.parse(words) == options


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--port",), "--port needs a value"),
        (("--proxy-arg",), "--proxy-arg needs a value"),
        (("--port", "http"), "--port 'http' is not a number from 1 to 65535"),
        (("--port", "70000"), "--port '70000' is not a number from 1 to 65535"),
    ],
)
def test_a_word_that_is_wrong_is_named(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        launch.parse(words)


# --- the program ----------------------------------------------------------------------------------------------------


def program(path: Path, content: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)
    path.chmod(0o755)
    return path


def test_the_agent_is_found_on_the_path(tmp_path: Path) -> None:
    claude = program(tmp_path / "claude")
    assert launch.find("claude", ("-p", "x"), {"PATH": str(tmp_path)}) == (str(claude), "-p", "x")


@pytest.mark.parametrize("name", CLIENTS)
def test_each_launcher_finds_its_own_program(name: str, tmp_path: Path) -> None:
    found = program(tmp_path / name)
    assert launch.find(name, ("--version",), {"PATH": str(tmp_path)}) == (str(found), "--version")


def test_the_agent_is_found_where_its_own_installer_puts_it(tmp_path: Path) -> None:
    claude = program(tmp_path / ".local/bin/claude")
    assert launch.find("claude", (), {"PATH": "/nowhere", "HOME": str(tmp_path)}) == (str(claude),)


def test_a_missing_agent_is_said_with_the_line_that_installs_it(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="claude is not installed: npm install -g @anthropic-ai/claude-code"):
        launch.find("claude", (), {"PATH": str(tmp_path), "HOME": str(tmp_path)})


def test_a_missing_program_has_the_shells_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch.main("run", ["--", "no-such-program-here"]) == 127
    assert capsys.readouterr().err == "openmem-context: no-such-program-here: no such program on PATH\n"


def test_run_without_a_command_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    assert launch.main("run", ["--own-proxy", "--"]) == 2
    assert "./run.sh run -- COMMAND" in capsys.readouterr().err


# --- the plan -------------------------------------------------------------------------------------------------------


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings and a certificate folder of this test's own."""
    script = tmp_path / "main.py"
    script.touch()
    monkeypatch.setattr("openmem_addon.commands.checkout.CERTIFICATES", tmp_path / "certs")
    monkeypatch.setattr("openmem_addon.commands.checkout.addon_script", lambda: script)
    return Settings(root=tmp_path / "context", provider_hosts=("llm.example.com",))


def test_the_agent_gets_a_proxy_its_certificate_and_the_loopback_past_it(settings: Settings, tmp_path: Path) -> None:
    inherited = {"PATH": "/bin", "NO_PROXY": "intranet"}
    launched = launch.prepare(CLAUDE, Options((), own_proxy=True), settings, inherited)
    plan, environ = launched.plan, launched.environ
    assert environ["HTTPS_PROXY"] == environ["https_proxy"] == f"http://127.0.0.1:{plan.port}"
    assert environ["NO_PROXY"] == environ["no_proxy"] == "intranet,localhost,127.0.0.1,::1"
    assert environ["NODE_EXTRA_CA_CERTS"] == str(tmp_path / "certs/mitmproxy-ca-cert.pem")
    assert environ["PATH"] == "/bin"
    assert not plan.shared
    assert plan.command[-2:] == ("--listen-port", str(plan.port))
    assert r"allow_hosts=^llm\.example\.com:443$" in plan.command
    assert Path(environ["SSL_CERT_FILE"]).read_bytes().startswith(b"-----BEGIN CERTIFICATE-----")


def test_without_a_certificate_the_agent_gets_a_base_url(settings: Settings) -> None:
    inherited = {"ANTHROPIC_BASE_URL": "https://llm.example.com/x/"}
    launched = launch.prepare(CLAUDE, Options((), no_ca=True), settings, inherited)
    plan, environ = launched.plan, launched.environ
    assert environ["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{plan.port}/x"
    assert "NODE_EXTRA_CA_CERTS" not in environ
    assert "HTTPS_PROXY" not in environ
    assert "reverse:https://llm.example.com" in plan.command
    assert plan.reverse


def test_without_a_certificate_codex_is_told_its_base_url_before_its_own_words(settings: Settings) -> None:
    launched = launch.prepare(CLIENTS["codex"], Options(("exec",), no_ca=True), settings, {})
    assert launched.words == ("-c", f'openai_base_url="http://127.0.0.1:{launched.plan.port}/v1"')
    assert "reverse:https://api.openai.com" in launched.plan.command


def test_without_a_certificate_each_provider_of_opencode_has_a_port_of_its_own(settings: Settings) -> None:
    launched = launch.prepare(CLIENTS["opencode"], Options((), no_ca=True), settings, {})
    assert launched.environ["ANTHROPIC_BASE_URL"] == f"http://127.0.0.1:{launched.plan.port}/v1"
    other = launched.environ["OPENAI_BASE_URL"].removeprefix("http://").removesuffix("/v1")
    assert "reverse:https://api.anthropic.com" in launched.plan.command
    assert f"reverse:https://api.openai.com@{other}" in launched.plan.command


def test_through_the_proxy_no_agent_gets_a_word_more_than_the_user_gave(settings: Settings) -> None:
    for client in (*CLIENTS.values(), ANY):
        assert launch.prepare(client, Options((), own_proxy=True), settings, {}).words == ()


def test_arguments_for_the_proxy_come_after_ours(settings: Settings) -> None:
    options = Options((), own_proxy=True, proxy_arguments=("-s", "tests/redirect.py", "--set", "redirect_port=9"))
    plan = launch.prepare(CLAUDE, options, settings, {}).plan
    assert plan.command[-6:-2] == options.proxy_arguments


def test_an_inherited_proxy_is_gone_through(settings: Settings) -> None:
    inherited = {"HTTPS_PROXY": "http://10.0.0.1:3128"}
    launched = launch.prepare(CLAUDE, Options((), own_proxy=True), settings, inherited)
    assert "upstream:http://10.0.0.1:3128" in launched.plan.command
    assert launched.environ["HTTPS_PROXY"] == f"http://127.0.0.1:{launched.plan.port}"


def test_a_folder_of_certificates_that_the_user_names_is_left_as_it_is(settings: Settings, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "mitmproxy-ca-cert.pem").write_text("mine")
    options = Options((), own_proxy=True, proxy_arguments=("--set", f"confdir={mine}"))
    environ = launch.prepare(CLAUDE, options, settings, {}).environ
    assert environ["NODE_EXTRA_CA_CERTS"] == str(mine / "mitmproxy-ca-cert.pem")
    assert (mine / "mitmproxy-ca-cert.pem").read_text() == "mine"
    assert not (mine / "mitmproxy-ca.pem").exists()


def test_a_taken_port_is_an_error_only_where_it_was_asked_for(
    settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as foreign:
        port = foreign.getsockname()[1]
        foreign.close()
    with socket.create_server(("127.0.0.1", port)):
        monkeypatch.setattr("openmem_addon.commands.probe.health", lambda *_, **__: None)
        monkeypatch.setattr("openmem_addon.commands.mitm.PORT", port)
        plan = launch.prepare(CLAUDE, Options(()), settings, {}).plan
        assert plan.port != port
        assert "is taken by another program: this agent gets a proxy of its own" in capsys.readouterr().err
        with pytest.raises(launch.StartError, match=f"port {port} is taken by another program: choose another"):
            launch.prepare(CLAUDE, Options((), port=port), settings, {})


def test_a_proxy_of_this_code_on_the_port_is_used(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = probe.Health("openmem-context", launch.version.code_hash(), 1)
    monkeypatch.setattr("openmem_addon.commands.probe.health", lambda *_, **__: answer)
    monkeypatch.setattr("openmem_addon.commands.probe.trusted", lambda *_: True)
    plan = launch.prepare(CLAUDE, Options((), port=9), settings, {}).plan
    assert (plan.port, plan.shared) == (9, True)


def test_a_proxy_whose_certificate_the_agent_would_not_trust_is_not_used(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Codex would try again for ever, and say only that it waits for the network."""
    answer = probe.Health("openmem-context", launch.version.code_hash(), 1)
    monkeypatch.setattr("openmem_addon.commands.probe.health", lambda *_, **__: answer)
    monkeypatch.setattr("openmem_addon.commands.probe.trusted", lambda *_: False)
    assert not launch.prepare(CLIENTS["codex"], Options(()), settings, {}).plan.shared
    assert "is taken by a proxy with another certificate: this agent gets" in capsys.readouterr().err


def test_a_proxy_that_stores_elsewhere_is_not_used(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two terminals with two state directories: what one agent says must not land in the other's store."""
    answer = probe.Health("openmem-context", launch.version.code_hash(), 7, root="/elsewhere")
    monkeypatch.setattr("openmem_addon.commands.probe.health", lambda *_, **__: answer)
    plan = launch.prepare(CLAUDE, Options(()), settings, {}).plan
    assert not plan.shared
    assert (
        "is taken by a proxy that stores in /elsewhere (process 7): this agent gets a proxy" in capsys.readouterr().err
    )


def test_a_setting_that_cannot_be_used_is_said_before_anything_starts(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    claude = program(empty_home / ".local/bin/claude")
    monkeypatch.setenv("PATH", str(claude.parent))
    monkeypatch.setenv("CONTEXT_TRIM_TOKENS", "many")
    assert launch.main("claude", []) == 1
    said = capsys.readouterr().err
    assert said.startswith("openmem-context: CONTEXT_TRIM_TOKENS = 'many'")
    assert said.count("\n") == 1


def test_a_state_folder_that_cannot_be_used_is_said_before_anything_starts(
    empty_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty_home / "state").touch()
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(empty_home / "state"))
    monkeypatch.setattr("openmem_addon.commands.checkout.CERTIFICATES", empty_home / "certs")
    monkeypatch.setenv("PATH", str(program(empty_home / ".local/bin/claude").parent))
    assert launch.main("claude", []) == 1
    said = capsys.readouterr().err
    assert said.startswith(
        "openmem-context: the state folder ~/state cannot be used (Not a directory): name another in "
    )
    assert said.count("\n") == 1
    assert not (empty_home / "certs").exists()
