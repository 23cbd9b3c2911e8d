"""Time a request spends in the proxy, as a ratio to mitmdump with an addon that does nothing.

One growing session per size; both proxies run at once and take turns, so that a noisy machine
disturbs them alike. The upstream answers at once, from memory.
"""

import argparse
import contextlib
import http.client
import http.server
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from addon_cpu import body, session

ROOT = Path(__file__).parent.parent
ANSWER = b'{"type":"message","usage":{"input_tokens":10,"output_tokens":1}}'
IDLE = "class Idle:\n    pass\n\naddons = [Idle()]\n"


class Upstream(http.server.BaseHTTPRequestHandler):
    """Reads a request and answers from memory."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    """Head and body are two writes: the second would wait up to 40 ms for the first to be acknowledged."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: a line per request would be measured too."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def proxy(script: Path, upstream: int, state: Path) -> Iterator[int]:
    """Run mitmdump in reverse mode with one script and yield its port."""
    port = free_port()
    command = [
        str(Path(sys.executable).with_name("mitmdump")),
        *("-q", "-s", str(script), "--listen-host", "127.0.0.1", "--listen-port", str(port)),
        *("--mode", f"reverse:http://127.0.0.1:{upstream}", "--set", f"confdir={state / 'certs'}"),
        *("--set", "connection_strategy=lazy", "--set", "stream_large_bodies=64m"),
    ]
    environ = {
        **os.environ,
        "OPENMEM_STATE_DIR": str(state),
        "CONTEXT_TRIM_TOKENS": "20000000",
        "PYTHONPATH": os.pathsep.join((str(ROOT / "addon"), str(ROOT / "store"))),
    }
    process = subprocess.Popen(command, env=environ)
    try:
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.wait()


def timed(connection: http.client.HTTPConnection, text: bytes) -> float:
    """Return the milliseconds from the first byte out to the last byte in."""
    headers = {"content-type": "application/json", "x-claude-code-session-id": "bench"}
    begin = time.perf_counter()
    connection.request("POST", "/v1/messages", text, headers)
    answer = connection.getresponse()
    answer.read()
    if answer.status != 200:
        raise RuntimeError(f"the proxy answered {answer.status}")
    return (time.perf_counter() - begin) * 1e3


def measure(size: int, rounds: int, ports: dict[str, int]) -> None:
    history = session(max(40, size // 1000) + 2 * rounds, size)
    times: dict[str, list[float]] = {name: [] for name in ports}
    connections = {name: http.client.HTTPConnection("127.0.0.1", port) for name, port in ports.items()}
    for number in range(rounds, 0, -1):
        text = body(history[: len(history) - 2 * number + 2])
        for name, connection in connections.items():
            times[name].append(timed(connection, text))
    ours, idle = (statistics.median(times[name][1:]) for name in ("ours", "idle"))
    added = f"added {ours - idle:6.2f} ms = {ours / idle:4.2f}"
    print(f"{size / 1e3:6.0f} KB   idle {idle:7.2f} ms   ours {ours:7.2f} ms   {added}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=21)
    given = parser.parse_args()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        idle = Path(folder) / "idle.py"
        idle.write_text(IDLE)
        upstream = server.server_address[1]
        with (
            proxy(idle, upstream, Path(folder) / "a") as first,
            proxy(ROOT / "addon" / "main.py", upstream, Path(folder) / "b") as second,
        ):
            for size in (50_000, 500_000, 2_000_000, 4_000_000):
                measure(size, given.rounds, {"idle": first, "ours": second})
    server.shutdown()


if __name__ == "__main__":
    main()
