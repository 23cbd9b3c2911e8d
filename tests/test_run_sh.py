"""run.sh with stand-ins for Python and uv: what it looks for, what it says, and when it does nothing."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

LOCKS = ("requirements.lock", "requirements-local-embeddings.lock", "requirements-dev.lock")

# An interpreter: answers the question for its version, makes no environment, and says what it was asked to run.
_PYTHON = """#!/bin/sh
case "$*" in
  *"sys.executable"*) [ {minor} -ge 12 ] || exit 1; echo "$0" ;;
  *"sys.version_info"*) [ {minor} -ge 12 ] ;;
  *) echo "ran: $*"; cat ;;
esac
"""

_UV = """#!/bin/sh
echo "$*" >>"{log}"
case "$1" in
  --version) echo uv ;;
  venv) while [ $# -gt 1 ]; do shift; done; mkdir -p "$1/bin"; cp "{python}" "$1/bin/python" ;;
  pip) [ ! -e "{log}.refuse" ] || {{ echo "the index cannot be reached" >&2; exit 1; }} ;;
  python) exit 1 ;;
esac
"""


# npm: notes what is installed, and puts a program with a version there.
_NPM = """#!/bin/sh
for word; do last=$word; done
echo "$last" >>"{log}"
mkdir -p "$3/node_modules/.bin"
for name in claude codex opencode; do
  printf '#!/bin/sh\\necho 1\\n' >"$3/node_modules/.bin/$name"
  chmod +x "$3/node_modules/.bin/$name"
done
"""


class Machine:
    """A checkout with run.sh, and a PATH on which there is only what the test puts there."""

    def __init__(self, folder: Path) -> None:
        self.checkout = folder / "the checkout"
        self.bin = folder / "bin"
        self.home = folder / "home"
        self.log = folder / "uv.log"
        for directory in (self.checkout, self.bin, self.home):
            directory.mkdir()
        shutil.copy(ROOT / "run.sh", self.checkout)
        for name in (*LOCKS, "pyproject.toml"):
            (self.checkout / name).write_text(f"{name}\n")
        for tool in (
            "bash",
            "sh",
            "env",
            "cat",
            "cksum",
            "dirname",
            "basename",
            "readlink",
            "ln",
            "rm",
            "mkdir",
            "chmod",
            "cp",
            "sleep",
        ):
            self.link(tool)

    def link(self, tool: str) -> None:
        found = shutil.which(tool)
        assert found is not None
        (self.bin / tool).symlink_to(found)

    def script(self, path: Path, content: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
        path.chmod(0o755)
        return path

    def python(self, path: Path, *, minor: int = 13) -> Path:
        return self.script(path, _PYTHON.format(minor=minor))

    def uv(self, path: Path | None = None) -> Path:
        model = self.python(self.log.with_name("model"))
        return self.script(path or self.bin / "uv", _UV.format(log=self.log, python=model))

    def run(self, *words: str, given: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(self.checkout / "run.sh"), *words],
            input=given,
            env={"PATH": str(self.bin), "HOME": str(self.home), **environ},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    @property
    def installs(self) -> list[str]:
        """What uv was asked to install, in order."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line.split("--python")[1].split(" ", 3)[-1] for line in lines if line.startswith("pip install")]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


RAN = "ran: -P -m openmem_addon.commands.cli status\n"


def test_it_starts_where_no_home_is_named(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    script = [str(machine.checkout / "run.sh"), "status"]
    done = subprocess.run(script, env={"PATH": str(machine.bin)}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, RAN), done.stderr


def test_the_first_use_installs_the_pins_and_then_the_project(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    done = machine.run("status")
    assert (done.returncode, done.stdout) == (0, RAN)
    calls = [line for line in machine.log.read_text().splitlines() if line.startswith("pip")]
    assert [call.split()[-2:] for call in calls] == [["-r", "requirements.lock"], ["-e", "."]]
    assert "--compile-bytecode" in calls[0]
    assert "--no-deps" in calls[1]


def test_the_second_use_does_and_says_nothing(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    machine.run("status")
    before = machine.log.read_text()
    done = machine.run("status")
    assert (done.returncode, done.stdout, done.stderr) == (0, RAN, "")
    assert machine.log.read_text() == before


@pytest.mark.parametrize("name", ["requirements.lock", "pyproject.toml"])
def test_a_change_of_what_it_was_made_from_sets_it_up_again(machine: Machine, name: str) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    machine.run("status")
    (machine.checkout / name).write_text("other\n")
    assert "bringing .venv up to date" in machine.run("status").stderr
    assert len(machine.installs) == 4


def test_a_checkout_that_was_moved_gets_a_new_environment(machine: Machine, tmp_path: Path) -> None:
    """An editable install holds absolute paths."""
    machine.uv()
    machine.python(machine.bin / "python3.13")
    machine.run("status")
    machine.checkout = machine.checkout.rename(tmp_path / "moved")
    assert "setting up in .venv" in machine.run("status").stderr


def test_standard_input_and_output_belong_to_the_command(machine: Machine) -> None:
    """An MCP client may be the first to use the checkout."""
    machine.uv()
    machine.python(machine.bin / "python3.13")
    done = machine.run("mcp", given="a line of the protocol\n")
    assert done.stdout == "ran: -P -m openmem_addon.commands.cli mcp\na line of the protocol\n"


def test_a_shim_that_does_not_run_is_passed_over(machine: Machine) -> None:
    machine.uv()
    machine.script(machine.bin / "python3.13", "#!/bin/sh\nexit 127\n")
    machine.python(machine.bin / "python3.12", minor=12)
    assert f"with {machine.bin / 'python3.12'}" in machine.run("status").stderr


def test_an_interpreter_that_only_pyenv_has_is_found(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3", minor=11)
    found = machine.python(machine.home / ".pyenv/versions/3.13.0/bin/python")
    assert f"with {found}" in machine.run("status").stderr


def test_an_interpreter_that_is_named_is_used(machine: Machine, tmp_path: Path) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    named = machine.python(tmp_path / "mine", minor=14)
    assert f"with {named}" in machine.run("status", OPENMEM_PYTHON=str(named)).stderr


def test_a_named_interpreter_that_is_too_old_is_refused(machine: Machine, tmp_path: Path) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    done = machine.run("status", OPENMEM_PYTHON=str(machine.python(tmp_path / "old", minor=11)))
    assert done.returncode == 1
    assert done.stderr == f"openmem-context: OPENMEM_PYTHON={tmp_path / 'old'} does not run, or is older than 3.12\n"


def test_a_machine_without_a_python_is_told_what_it_needs(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3", minor=11)
    done = machine.run("status")
    assert done.returncode == 1
    assert "needs Python 3.12 or newer and found none: install one" in done.stderr


def test_a_uv_that_fails_in_this_folder_is_passed_over(machine: Machine) -> None:
    """A pyenv shim of uv fails where a file names another Python version."""
    machine.script(machine.bin / "uv", "#!/bin/sh\nexit 127\n")
    machine.uv(machine.home / ".local/bin/uv")
    machine.python(machine.bin / "python3.13")
    assert machine.run("status").returncode == 0
    assert len(machine.installs) == 2


def test_an_index_that_cannot_be_reached_is_said_and_tried_again(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    refusal = Path(f"{machine.log}.refuse")
    refusal.touch()
    done = machine.run("status")
    assert done.returncode == 1
    assert "the index cannot be reached\n" in done.stderr
    assert "installing requirements.lock failed (the reason is above): it needs the Python package index" in done.stderr
    assert not (machine.checkout / ".setup-lock").is_symlink()
    refusal.unlink()
    assert machine.run("status").stdout == RAN


def test_the_lock_of_a_process_that_was_killed_is_taken_away(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    (machine.checkout / ".setup-lock").symlink_to(f"pid-{ended.pid}")
    assert machine.run("status").returncode == 0
    assert not (machine.checkout / ".setup-lock").is_symlink()


def test_a_folder_that_takes_no_files_ends_it_with_the_reason(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    (machine.bin / "ln").unlink()
    machine.script(machine.bin / "ln", "#!/bin/sh\necho \"ln: failed to create '$3': Permission denied\" >&2\nexit 1\n")
    done = machine.run("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"openmem-context: cannot write in {machine.checkout}: Permission denied\n"
    assert machine.installs == []


def test_it_waits_for_another_process_that_sets_up(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    lock = machine.checkout / ".setup-lock"
    lock.symlink_to(f"pid-{os.getpid()}")
    with subprocess.Popen(
        [str(machine.checkout / "run.sh"), "status"],
        env={"PATH": str(machine.bin), "HOME": str(machine.home)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        assert (
            waiting.stderr.readline()
            == f"openmem-context: another process ({os.getpid()}) is setting up: waiting for it\n"
        )
        assert machine.installs == []
        lock.unlink()
        assert waiting.wait(60) == 0


def test_the_development_tools_are_installed_once_and_first_in_the_path(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    for _ in range(2):
        done = machine.run("dev", "sh", "-c", 'echo "$PATH"')
        assert done.stdout.startswith(f"{machine.checkout}/.venv/bin:")
    assert [line.split()[-1] for line in machine.log.read_text().splitlines() if " -r " in line] == [
        "requirements.lock",
        "requirements-dev.lock",
    ]


@pytest.mark.parametrize("where", ["environment", "file", "named file"])
def test_the_local_embedding_model_is_installed_when_the_setting_asks_for_it(machine: Machine, where: str) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    assert machine.run("status", CONTEXT_EMBEDDING_MODEL="nomic-embed-text").stdout == RAN
    assert len(machine.installs) == 2
    environ: dict[str, str] = {}
    if where == "environment":
        environ["CONTEXT_EMBEDDING_MODEL"] = "local"
    else:
        folder = machine.home / (".config/openmem" if where == "file" else "elsewhere")
        folder.mkdir(parents=True)
        (folder / "config.toml").write_text("[context_store]\nttl_days = 3\n  embedding_model = 'local'  # on")
        if where == "named file":
            environ["OPENMEM_CONFIG"] = str(folder / "config.toml")
    done = machine.run("status", **environ)
    assert (done.returncode, done.stdout) == (0, RAN)
    said = "installing the local embedding model (65 MB to download, 170 MB on disk; once)"
    assert done.stderr == f"openmem-context: {said}\n"
    assert machine.installs[2:] == ["--compile-bytecode -r requirements-local-embeddings.lock"]
    done = machine.run("status", **environ)
    assert (done.stdout, done.stderr, len(machine.installs)) == (RAN, "", 3)


def test_a_local_embedding_model_that_cannot_be_installed_stops_nothing(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    machine.run("status")
    refusal = Path(f"{machine.log}.refuse")
    refusal.touch()
    done = machine.run("status", CONTEXT_EMBEDDING_MODEL="local")
    assert (done.returncode, done.stdout) == (0, RAN)
    assert done.stderr.endswith("openmem-context: going on without vectors; the next start tries again\n")
    assert not (machine.checkout / ".setup-lock").is_symlink()
    refusal.unlink()
    assert machine.run("status", CONTEXT_EMBEDDING_MODEL="local").stdout == RAN
    assert machine.installs[-1] == "--compile-bytecode -r requirements-local-embeddings.lock"


AGENTS = {"claude": "test_claude_code.py", "codex": "test_codex.py", "opencode": "test_opencode.py"}


def test_the_tests_of_an_agent_are_left_out_only_where_a_variable_says_so(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    done = machine.run("test", "-k", "name", OPENMEM_TEST_SKIP="claude,codex,opencode")
    ignored = " ".join(f"--ignore=tests/{test}" for test in AGENTS.values())
    assert done.stdout == f"ran: -m pytest {ignored} -k name\n"
    done = machine.run("test", OPENMEM_TEST_SKIP="claude,opencode")
    assert done.returncode == 1
    assert "the agent tests need Node 20 with npm; OPENMEM_TEST_SKIP=codex leaves those of codex out" in done.stderr


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_the_tests_say_what_they_take_and_install_nothing(machine: Machine, word: str) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    done = machine.run("test", word)
    assert (done.returncode, done.stderr.splitlines()[1:]) == (0, ["openmem-context: set up"])
    assert done.stdout.startswith("usage: ./run.sh test [arguments of pytest]\n")
    assert "requirements-dev.lock" not in machine.log.read_text()


def test_each_agent_is_installed_once_at_its_pinned_version(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    machine.script(machine.bin / "npm", _NPM.format(log=machine.log.with_name("npm.log")))
    for _ in range(2):
        done = machine.run("test")
        assert (done.returncode, done.stdout) == (0, "ran: -m pytest\n"), done.stderr
    installed = machine.log.with_name("npm.log").read_text().split()
    assert [package.rpartition("@")[0] for package in installed] == [
        "@anthropic-ai/claude-code",
        "@openai/codex",
        "opencode-ai",
    ]
    assert all(package.rpartition("@")[2][0].isdigit() for package in installed)


def test_an_agent_that_cannot_be_installed_fails_the_tests(machine: Machine) -> None:
    machine.uv()
    machine.python(machine.bin / "python3.13")
    machine.script(machine.bin / "npm", "#!/bin/sh\necho 'npm: no network' >&2\nexit 1\n")
    done = machine.run("test")
    assert done.returncode == 1
    assert "npm: no network\nopenmem-context: @anthropic-ai/claude-code could not be installed" in done.stderr
