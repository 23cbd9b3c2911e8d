"""Whose rule: the agent outlives its proxy, signals and exit codes pass through, nothing stays behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from openmem_addon.commands import agent, probe
from openmem_addon.commands.supervisor import Plan

if TYPE_CHECKING:
    from tests.addon.commands.conftest import StandIn

_DRIVER = """
import os, sys
from pathlib import Path
from openmem_addon.commands import agent
from openmem_addon.commands.supervisor import Plan
plan = Plan(command={command!r}, host={host!r}, port={port!r}, version={version!r}, root={root!r}, log=Path({log!r}))
sys.exit(agent.run(sys.argv[1:], os.environ, plan, tick=0.1))
"""


def launched(plan: Plan, program: str, *, gone: Path | None = None) -> subprocess.Popen[str]:
    """Start a launcher whose agent is a Python program, in a session of its own: there is no terminal.

    `gone` is a folder that it stands in and that is removed before.
    """
    leaving = ("sh", "-c", 'cd "$0" && rmdir "$0" && exec "$@"', str(gone)) if gone else ()
    driver = _DRIVER.format(
        command=plan.command, host=plan.host, port=plan.port, version=plan.version, root=plan.root, log=str(plan.log)
    )
    return subprocess.Popen(
        [*leaving, sys.executable, "-P", "-c", driver, sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


_WAITS = "import signal; signal.signal(signal.SIGINT, signal.SIG_DFL); print('ready', flush=True); signal.pause()"


def test_the_agents_exit_code_is_ours_and_the_proxy_is_gone(stand_in: "StandIn") -> None:
    with launched(stand_in.plan(), "import sys; print('done'); sys.exit(7)") as launcher:
        out, err = launcher.communicate(timeout=60)
    assert (launcher.returncode, out, err) == (7, "done\n", "")
    assert probe.health("127.0.0.1", stand_in.port) is None


def test_a_folder_that_is_gone_keeps_no_agent_from_starting(stand_in: "StandIn", tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    with launched(stand_in.plan(), "print('done')", gone=folder) as launcher:
        out, err = launcher.communicate(timeout=60)
    assert (launcher.returncode, out, err) == (0, "done\n", "")
    assert not folder.exists()


def test_the_agent_has_the_terminals_input(stand_in: "StandIn") -> None:
    with launched(stand_in.plan(), "print(input())") as launcher:
        out, _ = launcher.communicate("a question\n", timeout=60)
    assert out == "a question\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_the_agent_and_shows_in_the_exit_code(stand_in: "StandIn", number: signal.Signals) -> None:
    with launched(stand_in.plan(), _WAITS) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == "ready\n"
        launcher.send_signal(number)
        assert launcher.wait(60) == 128 + number
    assert probe.health("127.0.0.1", stand_in.port) is None


def test_an_agent_that_handles_the_signal_decides_itself(stand_in: "StandIn") -> None:
    program = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); {_WAITS}"
    with launched(stand_in.plan(), program) as launcher:
        assert launcher.stdout is not None
        launcher.stdout.readline()
        launcher.send_signal(signal.SIGTERM)
        assert launcher.wait(60) == 3


_ASKS = """
import http.client, json, os, signal, sys, time
def pid():
    connection = http.client.HTTPConnection("127.0.0.1", {port}, timeout=2)
    connection.request("GET", "/openmem/health")
    return json.loads(connection.getresponse().read())["pid"]
first = pid()
os.kill(first, signal.SIGKILL)
while True:
    try:
        second = pid()
    except OSError:
        second = first
    if second != first:
        break
    time.sleep(0.02)
print("answered again")
"""


def test_an_agent_outlives_a_killed_proxy(stand_in: "StandIn") -> None:
    with launched(stand_in.plan(), _ASKS.format(port=stand_in.port)) as launcher:
        out, err = launcher.communicate(timeout=60)
    assert (launcher.returncode, out, err) == (0, "answered again\n", "")
    assert len(stand_in.started) == 2


def test_three_failed_starts_end_with_one_line_and_no_agent(stand_in: "StandIn") -> None:
    with launched(stand_in.failing(), "print('the agent ran')") as launcher:
        out, err = launcher.communicate(timeout=60)
    assert (launcher.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert err.startswith("openmem-context: the proxy failed to start 3 times in a row")


def test_an_agent_that_cannot_be_run_is_said_to_be_so(stand_in: "StandIn", tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o755)
    assert agent.run([str(broken)], dict(os.environ), stand_in.plan()) == 126
    assert probe.health("127.0.0.1", stand_in.port) is None
