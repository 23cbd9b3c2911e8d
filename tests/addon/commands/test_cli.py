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


@pytest.mark.parametrize(
    ("words", "expected"), [([], ("proxy", [])), (["proxy", "-q"], ("proxy", ["-q"])), (["web"], ("web", []))]
)
def test_no_command_means_the_proxy(
    words: list[str], expected: tuple[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(start, "main", lambda name, rest: called.append((name, rest)) or 5)
    assert cli.main(words) == 5
    assert called == [expected]


def test_the_command_line_imports_nothing_heavy() -> None:
    """`status` and `--version` must not wait for mitmproxy or the MCP SDK."""
    code = (
        "import sys; from openmem_addon.commands import cli, status; "
        "print(sorted({'mitmproxy', 'mcp', 'httpx', 'cryptography'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
