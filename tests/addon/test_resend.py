"""Hold a request of our own to being the client's, and its answer to being the provider's."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from openmem_addon.resend import Upstream, resend

from fixtures.provider import certificate

PLAIN = Upstream()
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
EVENTS = b"event: message_start\ndata: {}\n\nevent: message_stop\ndata: {}\n\n"


class Server:
    """Answers every request with the same bytes and keeps what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self.port = 0
        self.head: list[str] = []
        """Request line and headers of the last request."""
        self.body = b""

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        except asyncio.IncompleteReadError:
            writer.close()
            return
        self.head = [line if at == 0 else line.lower() for at, line in enumerate(head)]
        self.body = await reader.readexactly(int(self.headers["content-length"]))
        writer.write(self._answer)
        await writer.drain()
        writer.close()

    @property
    def headers(self) -> dict[str, str]:
        return dict(line.split(": ", 1) for line in self.head[1:])


@asynccontextmanager
async def serving(answer: bytes = OK, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(answer)
    async with await asyncio.start_server(server.handle, "127.0.0.1", 0, ssl=tls) as listener:
        server.port = listener.sockets[0].getsockname()[1]
        yield server


async def test_the_request_is_the_clients_but_for_what_belongs_to_a_connection() -> None:
    given = {
        "host": "api.anthropic.com",
        "x-api-key": "invented",
        "anthropic-beta": "a,b",
        "content-type": "application/json",
        "user-agent": "agent/1",
        "accept-encoding": "gzip, br, zstd",
        "content-encoding": "zstd",
        "content-length": "999",
        "transfer-encoding": "chunked",
        "connection": "keep-alive",
        "proxy-connection": "keep-alive",
        "proxy-authorization": "Basic invented",
        "expect": "100-continue",
        "te": "trailers",
    }
    body = '{"text":"天气"}'.encode()
    async with serving() as server:
        await resend(f"http://127.0.0.1:{server.port}/v1/messages?beta=true", given, body, PLAIN)
        assert server.head[0] == "POST /v1/messages?beta=true HTTP/1.1"
        assert server.body == body
        assert server.headers == {
            "host": "api.anthropic.com",
            "x-api-key": "invented",
            "anthropic-beta": "a,b",
            "content-type": "application/json",
            "user-agent": "agent/1",
            "accept-encoding": "identity",
            "content-length": str(len(body)),
            "accept": "*/*",
            "connection": "keep-alive",
        }


ANSWERS: dict[str, tuple[bytes, bytes]] = {
    "whole": (b"content-length: %d\r\n\r\n%s" % (len(EVENTS), EVENTS), EVENTS),
    "chunked": (
        b"transfer-encoding: chunked\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n"
        % (EVENTS[:5], len(EVENTS) - 5, EVENTS[5:]),
        EVENTS,
    ),
    "to the end of the connection": (b"connection: close\r\n\r\n" + EVENTS, EVENTS),
    "compressed all the same": (
        b"content-encoding: gzip\r\nconnection: close\r\n\r\n" + gzip.compress(EVENTS),
        EVENTS,
    ),
}


@pytest.mark.parametrize(("answer", "body"), ANSWERS.values(), ids=ANSWERS)
async def test_an_answer_is_whole_whatever_its_framing(answer: bytes, body: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nrequest-id: r1\r\n"
    cookies = b"set-cookie: a=1\r\nset-cookie: b=2\r\n"
    async with serving(head + cookies + answer) as server:
        got = await resend(f"http://127.0.0.1:{server.port}/", {}, b"{}", PLAIN)
    assert got.status == 200
    assert got.body == body
    assert got.headers == (
        (b"Content-Type", b"text/event-stream"),
        (b"request-id", b"r1"),
        (b"set-cookie", b"a=1"),
        (b"set-cookie", b"b=2"),
    )


@pytest.mark.parametrize("status", [400, 429, 529])
async def test_a_refusal_is_an_answer(status: int) -> None:
    async with serving(b"HTTP/1.1 %d No\r\ncontent-length: 2\r\n\r\nno" % status) as server:
        got = await resend(f"http://127.0.0.1:{server.port}/", {}, b"{}", PLAIN)
    assert (got.status, got.body) == (status, b"no")


async def test_a_redirection_is_the_clients_to_follow() -> None:
    async with serving(b"HTTP/1.1 307 Moved\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n") as server:
        got = await resend(f"http://127.0.0.1:{server.port}/", {}, b"{}", PLAIN)
    assert (got.status, got.headers) == (307, ((b"location", b"http://127.0.0.1:1/"),))


BROKEN = [
    b"",
    b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\nhalf",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n9\r\nhalf",
]


@pytest.mark.parametrize("answer", BROKEN, ids=["none", "half a body", "half a chunk"])
async def test_half_an_answer_is_none(answer: bytes) -> None:
    async with serving(answer) as server:
        with pytest.raises(httpx.HTTPError):
            await resend(f"http://127.0.0.1:{server.port}/", {}, b"{}", PLAIN)


async def test_a_provider_that_is_gone_is_an_error() -> None:
    async with serving() as server:
        port = server.port
    with pytest.raises(httpx.HTTPError):
        await resend(f"http://127.0.0.1:{port}/", {}, b"{}", PLAIN)


async def test_a_proxy_behind_this_one_is_used_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    async with serving() as server:
        through = Upstream(through=f"http://127.0.0.1:{server.port}")
        assert (await resend("http://provider.example/v1/messages", {}, b"{}", through)).body == b"ok"
        assert server.head[0] == "POST http://provider.example/v1/messages HTTP/1.1"
        assert (await resend(f"http://127.0.0.1:{server.port}/", {}, b"{}", PLAIN)).body == b"ok"
        assert server.head[0] == "POST / HTTP/1.1"


async def test_a_certificate_must_be_signed_by_the_roots_unless_it_was_told_otherwise(tmp_path: Path) -> None:
    files = certificate.make(tmp_path, ["localhost"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(files.cert, files.key)
    async with serving(tls=context) as server:
        url = f"https://localhost:{server.port}/"
        with pytest.raises(httpx.ConnectError):
            await resend(url, {}, b"{}", PLAIN)
        assert (await resend(url, {}, b"{}", Upstream(roots=str(files.ca)))).body == b"ok"
        assert (await resend(url, {}, b"{}", Upstream(verified=False))).body == b"ok"


async def test_roots_that_are_not_there_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        await resend("https://localhost:1/", {}, b"{}", Upstream(roots=str(tmp_path / "none.pem")))
