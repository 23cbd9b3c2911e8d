"""Whose rule: a person who starts the web page is told its address and token, and nothing scrolls them away."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from openmem_addon.commands import mitm

REPOSITORY = Path(__file__).parents[2]


def test_the_page_is_opened_with_what_is_printed_and_a_connection_prints_nothing(tmp_path: Path) -> None:
    with socket.create_server((mitm.LOOPBACK, 0)) as one, socket.create_server((mitm.LOOPBACK, 0)) as other:
        port, page = one.getsockname()[1], other.getsockname()[1]
    given = mitm.Arguments(("--listen-port", str(port), "--set", f"web_port={page}", "--set", "web_open_browser=false"))
    words = mitm.arguments(
        given, script=REPOSITORY / "addon/main.py", confdir=tmp_path / "certs", roots=None, allowed=(), web=True
    )
    tool = Path(sys.executable).with_name("mitmweb")
    state = {"OPENMEM_STATE_DIR": str(tmp_path), "OPENMEM_CONFIG": str(tmp_path / "config.toml")}
    (tmp_path / "config.toml").touch()
    with subprocess.Popen(
        [sys.executable, "-P", str(tool), *words],
        env={**os.environ, **state},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.fullmatch(rf"The web page: (http://127\.0\.0\.1:{page}/)(\?token=[0-9a-f]{{32}})\n", line)
            assert found, line
            direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
            with direct.open("".join(found.groups())) as answer:
                assert answer.status == 200
            with socket.create_connection((mitm.LOOPBACK, port)) as asking:
                asking.sendall(b"GET http://openmem.local/health HTTP/1.1\r\nHost: openmem.local\r\n\r\n")
                assert asking.recv(4096).startswith(b"HTTP/1.1 200")
        finally:
            process.send_signal(signal.SIGTERM)
            rest, _ = process.communicate(timeout=60)
    assert rest == ""
