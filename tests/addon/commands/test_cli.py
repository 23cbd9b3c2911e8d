import os
import subprocess
import sys

import pytest
from openmem_addon.commands import cli, start
from openmem_store import version


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == 0
    said = capsys.readouterr().out
    for name in (*cli.COMMANDS, "test"):
        assert f"\n  {name} " in said


def test_the_version_names_the_code_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"openmem-context {version.VERSION} (code {version.code_hash()})\n"


def test_an_unknown_command_lists_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["gemini"]) == 2
    assert capsys.readouterr().err == (
        f"openmem-context: no command 'gemini'; there are: {', '.join((*cli.COMMANDS, 'test'))}\n"
    )


@pytest.mark.parametrize(("name", "near"), [("stats", "status"), ("tests", "test"), ("claud", "claude")])
def test_a_command_that_is_misspelt_is_named(name: str, near: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name]) == 2
    assert capsys.readouterr().err.startswith(f"openmem-context: no command '{name}' (did you mean '{near}'?); there ")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ("proxy", [])),
        (["proxy", "-q"], ("proxy", ["-q"])),
        (["--listen-port", "8081"], ("proxy", ["--listen-port", "8081"])),
        (["-p8081"], ("proxy", ["-p8081"])),
        (["web"], ("web", [])),
    ],
)
def test_no_command_means_the_proxy(
    words: list[str], expected: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(start, "main", lambda name, rest: called.append((name, rest)) or 5)
    assert cli.main(words) == 5
    assert called == [expected]


@pytest.mark.parametrize("name", cli.COMMANDS)
@pytest.mark.usefixtures("empty_home")
def test_every_command_says_what_it_takes(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name, "--help"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: ./run.sh ")
    assert name in said.out
    assert said.err == ""


def test_output_that_nobody_reads_ends_a_command_quietly() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as closed:
        words = [sys.executable, "-m", "openmem_addon.commands.cli", "off", "--help"]
        done = subprocess.run(words, stdout=closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (cli.CLOSED, "")


def test_an_interrupted_command_says_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str, words: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(start, "main", interrupted)
    assert cli.main(["proxy"]) == cli.INTERRUPTED
    assert capsys.readouterr() == ("\n", "")


def test_a_connection_that_breaks_is_not_taken_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(name: str, words: list[str]) -> int:
        raise BrokenPipeError

    monkeypatch.setattr(start, "main", breaks)
    with pytest.raises(BrokenPipeError):
        cli.main(["proxy"])


def test_the_command_line_imports_nothing_heavy() -> None:
    """`status` and `--version` must not wait for mitmproxy or the MCP SDK."""
    code = (
        "import sys; from openmem_addon.commands import cli, status; "
        "print(sorted({'mitmproxy', 'mcp', 'httpx', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
