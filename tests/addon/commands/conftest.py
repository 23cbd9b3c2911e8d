"""A stand-in for the proxy: answers the health question within milliseconds, so that starts are cheap to test."""

import json
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from openmem_addon.commands import probe
from openmem_addon.commands.supervisor import Plan

VERSION = "0123456789ab"
ROOT = "/store"

_STAND_IN = """
import http.server, json, os, pathlib, signal, sys, threading
port, version, root, starts = int(sys.argv[1]), sys.argv[2], sys.argv[3], pathlib.Path(sys.argv[4])
with starts.open("a") as file:
    file.write(f"{os.getpid()}\\n")
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps({"service": "openmem-context", "version": version, "pid": os.getpid(), "root": root}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *words):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Answer)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
server.serve_forever()
"""


class StandIn:
    """One port, the plan of a proxy on it, and the process ids of all that were started there."""

    def __init__(self, folder: Path) -> None:
        self.port = probe.free_port("127.0.0.1")
        self._starts = folder / "starts"
        self._script = folder / "stand_in.py"
        self._script.write_text(_STAND_IN)
        self._log = folder / "logs" / "proxy.log"

    def plan(self, *, version: str = VERSION, root: str = ROOT, shared: bool = True) -> Plan:
        command = (sys.executable, str(self._script), str(self.port), version, root, str(self._starts))
        return Plan(
            command=command,
            host="127.0.0.1",
            port=self.port,
            version=version,
            root=root,
            log=self._log,
            shared=shared,
        )

    def failing(self, word: str = "mitmdump: error: no such argument") -> Plan:
        """Return the plan of a proxy that ends at once with a line in its log."""
        command = (
            sys.executable,
            "-c",
            f"import sys; open({str(self._starts)!r}, 'a').write('0\\n'); sys.exit({word!r})",
        )
        return Plan(command=command, host="127.0.0.1", port=self.port, version=VERSION, root=ROOT, log=self._log)

    @property
    def started(self) -> list[int]:
        return [int(line) for line in self._starts.read_text().split()] if self._starts.exists() else []


@contextmanager
def listening(asked: str | None, health: Mapping[str, object]) -> Iterator[int]:
    """Stand in for who holds a port: answer the health question as `asked`, any other with an error.

    Yields the port.
    """

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path == asked
            body = json.dumps(health).encode() if known else b"<html>"
            self.send_response(200 if known else 400)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_port
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture
def stand_in(tmp_path: Path) -> StandIn:
    return StandIn(tmp_path)


@pytest.fixture
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has set nothing and stored nothing."""
    for name in [name for name in os.environ if name.startswith(("CONTEXT_", "OPENMEM_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path
