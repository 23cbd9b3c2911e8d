"""Whose rule: SIGTERM drains running streams."""

import http.client
import http.server
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from openmem_addon.commands import probe

_SCRIPT = """
from openmem_addon.drain import Drain
class Stream:
    def running(self):
        print("running", flush=True)
    def responseheaders(self, flow):
        flow.response.stream = True
addons = [Stream(), Drain(limit={limit})]
"""


class Provider(http.server.ThreadingHTTPServer):
    """Sends the first half of each answer at once, and the second when it is told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.go_on = threading.Event()


class _Answer(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Provider

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "12")
        self.end_headers()
        self.wfile.write(b"first ")
        self.server.go_on.wait(30)
        self.wfile.write(b"second")

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def provider() -> Iterator[Provider]:
    with Provider() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.go_on.set()
        server.shutdown()
        thread.join()


@contextmanager
def proxying(folder: Path, provider: Provider, *, limit: float = 60.0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    script = folder / "script.py"
    script.write_text(_SCRIPT.format(limit=limit))
    port = probe.free_port("127.0.0.1")
    mode = f"reverse:http://127.0.0.1:{provider.server_address[1]}"
    words = ["-q", "-s", str(script), "--listen-host", "127.0.0.1", "-p", str(port), "--mode", mode]
    command = [sys.executable, "-c", "from mitmproxy.tools.main import mitmdump; mitmdump()", *words]
    with subprocess.Popen([*command, "--set", f"confdir={folder}"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "running\n"
        try:
            yield process, port
        finally:
            process.kill()


def begun(port: int) -> http.client.HTTPResponse:
    """Return an answer whose first half has arrived."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request("GET", "/")
    response = connection.getresponse()
    assert response.read(6) == b"first "
    return response


def refuses(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except ConnectionRefusedError:
        return True
    except ConnectionResetError:  # the listener closed while this connection waited in its backlog
        return False
    return False


def test_a_running_answer_is_finished_and_no_other_begun(tmp_path: Path, provider: Provider) -> None:
    with proxying(tmp_path, provider) as (process, port):
        response = begun(port)
        process.send_signal(signal.SIGTERM)
        while not refuses(port):
            pass
        process.send_signal(signal.SIGTERM)
        provider.go_on.set()
        assert response.read() == b"second"
        assert process.wait(30) == 0


def test_a_connection_that_is_kept_gets_its_answer_and_the_word_that_it_ends(
    tmp_path: Path, provider: Provider
) -> None:
    with proxying(tmp_path, provider) as (process, port):
        kept = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        kept.connect()
        holding = begun(port)
        process.send_signal(signal.SIGTERM)
        while not refuses(port):
            pass
        kept.request("GET", "/")
        last = kept.getresponse()
        assert last.getheader("connection") == "close"
        provider.go_on.set()
        assert last.read() == b"first second"
        assert holding.read() == b"second"
        assert process.wait(30) == 0


def test_an_idle_proxy_ends_at_once(tmp_path: Path, provider: Provider) -> None:
    with proxying(tmp_path, provider) as (process, _):
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_an_answer_that_never_ends_does_not_hold_the_proxy_for_ever(tmp_path: Path, provider: Provider) -> None:
    with proxying(tmp_path, provider, limit=0.5) as (process, port):
        response = begun(port)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        with pytest.raises(http.client.IncompleteRead):
            response.read()
