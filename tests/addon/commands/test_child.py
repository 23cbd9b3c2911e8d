import subprocess
import sys
from pathlib import Path

from openmem_addon.commands import mitm, probe
from openmem_addon.commands.supervisor import python_command

_SCRIPT = """
import pathlib
class Told:
    def running(self):
        print("running", flush=True)
    def done(self):
        print("done", flush=True)
addons = [Told()]
"""


def test_the_proxy_ends_when_its_launcher_does(tmp_path: Path) -> None:
    """The closed pipe is all that a launcher leaves when it is killed."""
    script = tmp_path / "told.py"
    script.write_text(_SCRIPT)
    port = probe.free_port(mitm.LOOPBACK)
    words = ["-q", "-s", str(script), "--listen-host", mitm.LOOPBACK, "-p", str(port), "--set", f"confdir={tmp_path}"]
    with subprocess.Popen(
        python_command(sys.executable, words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "running\n"
        child.stdin.close()
        assert child.stdout.read() == "done\n"
        assert child.wait(30) == 0
