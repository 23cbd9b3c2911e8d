"""A fake embeddings endpoint on loopback, and an embedder without one: both do what a test tells them."""

import hashlib
import json
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec


class Request(msgspec.Struct, frozen=True):
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    """Lower-case names."""
    body: dict[str, Any]


Reply = Callable[[Request], tuple[int, bytes]]
"""From a request to the status and the body of its answer."""


class Fake:
    """The endpoint: what it was asked, and how it answers."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply
        self.requests: list[Request] = []
        self.url = ""


@contextmanager
def served(reply: Reply | None = None) -> Iterator[Fake]:
    """Serve until the block ends; by default every text gets the vector that its hash gives."""
    fake = Fake(reply or vectors)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            request = Request(self.path, {k.lower(): v for k, v in self.headers.items()}, json.loads(body))
            fake.requests.append(request)
            status, answer = fake.reply(request)
            self.send_response(status)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    fake.url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()


def vectors(request: Request) -> tuple[int, bytes]:
    """Answer as an endpoint does."""
    return 200, answer([hashed(text) for text in request.body["input"]])


def answer(values: Sequence[Sequence[float]]) -> bytes:
    data = [{"object": "embedding", "index": index, "embedding": value} for index, value in enumerate(values)]
    return json.dumps({"object": "list", "data": data, "model": "fake"}).encode()


def hashed(text: str) -> list[float]:
    """Return eight numbers that depend on the text alone."""
    digest = hashlib.sha256(text.encode()).digest()
    return [byte / 255 - 0.5 for byte in digest[:8]]


def vector(*values: float) -> bytes:
    """Return a vector as it is stored."""
    return struct.pack(f"<{len(values)}f", *values)


class DownError(Exception):
    """What `Scripted` raises."""


class Scripted:
    """An embedder that fails where it is told to, and a clock that moves only while it works."""

    def __init__(self, *, seconds: float = 0.5) -> None:
        self.calls: list[list[str]] = []
        self.timeouts: list[float] = []
        self.fails: Callable[[list[str]], bool] = lambda texts: False
        self.seconds = seconds
        """What each call takes."""
        self.now = 1000.0

    def clock(self) -> float:
        return self.now

    def embed(self, texts: Sequence[str], *, timeout: float) -> list[bytes]:
        self.calls.append(list(texts))
        self.timeouts.append(timeout)
        self.now += self.seconds
        if self.fails(list(texts)):
            raise DownError
        return [vector(*hashed(text)) for text in texts]

    @property
    def sizes(self) -> list[int]:
        return [len(call) for call in self.calls]
