"""Hold each check to finding its trouble, and to the line that mends it."""

import datetime
import os
import socket
import stat
from pathlib import Path

import msgspec
import pytest
from openmem_addon import hosts, switch
from openmem_addon.commands import certificate, doctor, probe
from openmem_addon.commands.certificate import Authority
from openmem_addon.commands.finding import Finding, Scene
from openmem_store import version
from openmem_store.layout import Layout
from openmem_store.settings import Settings

from tests.addon.commands.conftest import StandIn, listening

NOW = datetime.datetime(2026, 10, 29, 17, 0, tzinfo=datetime.UTC)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    settings = Settings(root=tmp_path / "state" / "context")
    environ = {"HOME": str(tmp_path), "PATH": "/nowhere"}
    return Scene(settings, environ, tmp_path, probe.free_port("127.0.0.1"), Authority(tmp_path / "certs"), NOW)


def only(findings: list[Finding]) -> Finding:
    [finding] = findings
    return finding


def test_this_environment_is_in_order(scene: Scene) -> None:
    for check in (doctor.python, doctor.sqlite, doctor.disk):
        assert only(list(check(scene))).mark == "ok"


def test_a_store_that_is_not_there_yet_is_no_problem(scene: Scene) -> None:
    assert only(list(doctor.store(scene))).mark == "note"


def test_a_store_open_to_others_is_closed_by_the_line(scene: Scene) -> None:
    layout = Layout(scene.settings.root)
    layout.prepare()
    assert only(list(doctor.store(scene))).mark == "ok"
    layout.database("s").touch(mode=0o644)
    layout.database("s").chmod(0o644)
    found = only(list(doctor.store(scene)))
    assert (found.mark, found.fix) == ("problem", f"chmod -R go-rwx '{layout.root}'")
    assert os.system(str(found.fix)) == 0
    assert only(list(doctor.store(scene))).mark == "ok"


def test_what_was_switched_off_is_noted(scene: Scene) -> None:
    layout = Layout(scene.settings.root)
    assert list(doctor.switches(scene)) == []
    switch.turn(layout, "s-1", "off")
    switch.turn(layout, None, "raw")
    assert list(doctor.switches(scene)) == [
        Finding("note", "switch", "all sessions: raw: everything is sent whole and nothing is stored", "./run.sh on"),
        Finding(
            "note",
            "switch",
            "session s-1: switched off: nothing new is removed, compressed or explained",
            "./run.sh on s-1",
        ),
    ]


def test_a_switch_that_cannot_be_read_is_a_problem(scene: Scene) -> None:
    layout = Layout(scene.settings.root)
    layout.prepare()
    layout.off(None).mkdir()
    found = only(list(doctor.switches(scene)))
    assert (found.mark, found.said) == ("problem", f"{layout.off(None)} cannot be read: Is a directory")


def test_a_full_disk_is_said(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "LEAST_FREE", 1 << 60)
    assert only(list(doctor.disk(scene))).mark == "problem"


def test_the_certificate_is_looked_at(scene: Scene) -> None:
    assert only(list(doctor.trust(scene))).mark == "note"
    authority = certificate.ensure(scene.authority.directory, hosts.PROVIDERS, now=NOW)
    assert "bundle.pem is missing" in only(list(doctor.trust(scene))).said
    authority.bundle.touch()
    assert only(list(doctor.trust(scene))).mark == "ok"
    authority.key.chmod(0o644)
    assert [each.mark for each in doctor.trust(scene)] == ["problem", "ok"]
    assert stat.S_IMODE(authority.key.stat().st_mode) == 0o644, "it looks, and changes nothing"


def test_a_certificate_for_other_hosts_or_another_time_is_noted_as_the_next_start_makes_a_new_one(
    scene: Scene,
) -> None:
    mended = "start the proxy again: it makes a new one by itself"
    certificate.ensure(scene.authority.directory, hosts.PROVIDERS[:1], now=NOW)
    said = "is not for exactly the provider hosts of the settings"
    assert only(list(doctor.trust(scene))) == Finding("note", "certificate", said, mended)
    certificate.ensure(scene.authority.directory, hosts.PROVIDERS, now=NOW - datetime.timedelta(days=1000))
    said = "expires soon, or has expired"
    assert only(list(doctor.trust(scene))) == Finding("note", "certificate", said, mended)


def test_a_free_port_is_fine_and_a_taken_one_is_not(scene: Scene) -> None:
    assert only(list(doctor.port(scene))).mark == "ok"
    with socket.create_server(("127.0.0.1", scene.port)):
        found = only(list(doctor.port(scene)))
    assert (found.mark, found.what) == ("problem", "port")


def test_a_reverse_proxy_of_ours_is_known_and_asked_for_no_certificate(
    scene: Scene,
) -> None:
    health = {"service": "openmem-context", "version": version.code_hash(), "pid": 7}
    with listening("/openmem/health", health) as port:
        found = only(list(doctor.port(msgspec.structs.replace(scene, port=port))))
    assert found == Finding("ok", "proxy", f"on {port} as a reverse proxy, process 7, on this code")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"version": "0" * 12}, "runs other code"),
        ({"version": version.code_hash(), "root": "/elsewhere"}, "stores in /elsewhere"),
    ],
)
def test_a_proxy_of_another_kind_is_a_problem(
    scene: Scene, stand_in: StandIn, given: dict[str, str], said: str
) -> None:
    from openmem_addon.commands.supervisor import Supervisor

    supervisor = Supervisor(stand_in.plan(**given), report=print)
    supervisor.begin()
    try:
        settings = Settings(root=Path("/store"))
        other = Scene(settings, scene.environ, scene.home, stand_in.port, scene.authority, NOW)
        found = next(iter(doctor.port(other)))
    finally:
        supervisor.stop()
    assert found.mark == "problem"
    assert said in found.said
    assert found.fix is not None
    assert found.fix.startswith("kill ")


def test_the_search_server_answers(scene: Scene) -> None:
    assert only(list(doctor.programs(scene))) == Finding("ok", "search", "the search server answers")


def test_a_server_that_ends_is_a_problem(scene: Scene, tmp_path: Path) -> None:
    for script, said in (("exit 3", "ended with code 3"), ("read line; exit 0", "ended with code 0")):
        program = tmp_path / "server"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        assert said in only(list(doctor._server(program, os.environ))).said


def test_a_server_that_says_nothing_is_not_waited_for(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "PATIENCE_S", 0.1)
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\nexec tail -f /dev/null\n")
    program.chmod(0o755)
    assert "ended with code -9" in only(list(doctor._server(program, os.environ))).said


def test_what_the_settings_file_says_in_vain_is_a_problem(scene: Scene) -> None:
    assert only(list(doctor.settings(scene))).mark == "ok"
    ignored = msgspec.structs.replace(scene, ignored=("config.toml: [context_proxy] trim_token is not a setting",))
    found = only(list(doctor.settings(ignored)))
    assert (found.mark, found.said) == ("problem", "config.toml: [context_proxy] trim_token is not a setting")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("CONTEXT_TRIM_TOKEN", "CONTEXT_TRIM_TOKENS"),
        ("CONTEXT_STORE_TTL_DAY", "CONTEXT_STORE_TTL_DAYS"),
        ("CONTEXT_TRIM_TOKENS", None),
        ("CONTEXT_ROOT", None),
        ("CONTENT_TRIM_TOKENS", None),
    ],
)
def test_a_variable_that_is_almost_a_setting_is_a_problem(scene: Scene, name: str, meant: str | None) -> None:
    environ = {**scene.environ, name: "5"}
    first, *_ = doctor.settings(msgspec.structs.replace(scene, environ=environ))
    assert (first.mark, first.fix) == (("problem", f"{meant} is one") if meant else ("ok", None))


def test_a_memory_provider_is_asked_as_a_trim_asks_it(scene: Scene) -> None:
    assert list(doctor.memory(scene)) == []
    settings = msgspec.structs.replace(scene.settings, bank="b", recall_url="http://127.0.0.1:9")
    found = only(list(doctor.memory(msgspec.structs.replace(scene, settings=settings))))
    assert (found.mark, found.what) == ("problem", "memory")
    assert found.said.startswith("http://127.0.0.1:9, bank b: fail-open ConnectError at recall.py:")


@pytest.mark.usefixtures("empty_home")
def test_a_setting_that_cannot_be_used_is_the_first_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXT_TRIM_TOKENS", "many")
    assert doctor.main("doctor", []) == 1
    assert "CONTEXT_TRIM_TOKENS" in capsys.readouterr().out


@pytest.mark.usefixtures("empty_home")
def test_the_whole_report_ends_with_its_count(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(doctor, "CHECKS", (doctor.python, doctor.store))
    assert doctor.main("doctor", ["--port", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "0 problems"


@pytest.mark.parametrize("words", [["--all"], ["--port"], ["--port", "x"]])
def test_words_that_are_none_of_ours_show_the_usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main("doctor", words) == 2
    assert "usage: ./run.sh doctor" in capsys.readouterr().err
