import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from openmem_addon.commands import probe
from openmem_addon.commands.probe import Health

from fixtures.provider import certificate
from tests.addon.commands.conftest import listening

GOOD = {"service": "openmem-context", "version": "0123456789ab", "pid": 7, "fail_opens": 1, "requests": 2}


@contextmanager
def answering(reply: bytes) -> Iterator[tuple[int, list[bytes]]]:
    """Serve one connection with `reply`; yields the port and what was asked."""
    asked: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(4096))
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], asked
        thread.join(10)
        assert not thread.is_alive()


def http(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def test_a_proxy_of_ours_is_known_by_its_answer() -> None:
    with answering(http(json.dumps(GOOD).encode())) as (port, asked):
        assert probe.health("127.0.0.1", port) == Health("openmem-context", "0123456789ab", 7, fail_opens=1, requests=2)
    assert asked[0].startswith(b"GET http://openmem.local/health HTTP/1.1\r\n")
    assert b"\r\nHost: openmem.local\r\n" in asked[0]


def test_a_reverse_proxy_is_asked_by_path() -> None:
    with answering(http(json.dumps(GOOD).encode())) as (port, asked):
        assert probe.health("127.0.0.1", port, reverse=True) is not None
    assert asked[0].startswith(b"GET /openmem/health HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("asked", "held", "forwards"),
    [("http://openmem.local/health", "ours", True), ("/openmem/health", "ours", False), (None, "other", False)],
)
def test_who_holds_a_port_is_asked_both_ways(asked: str | None, held: probe.Held, forwards: bool) -> None:
    ours = Health("openmem-context", "0123456789ab", 7, fail_opens=1, requests=2)
    with listening(asked, GOOD) as port:
        assert probe.holder("127.0.0.1", port) == probe.Holder(held, ours if asked else None)
        assert probe.forwards("127.0.0.1", port) == forwards
    assert probe.holder("127.0.0.1", port) == probe.Holder("free")


FOREIGN = [
    b"",
    b"SSH-2.0-OpenSSH_9.2\r\n",
    http(b"<html>", "502 Bad Gateway"),
    http(b"{}"),
    http(b"[1]"),
    http(json.dumps({**GOOD, "service": "another"}).encode()),
    http(json.dumps({**GOOD, "pid": "7"}).encode()),
    http(b"\xff\xfe"),
]


@pytest.mark.parametrize("reply", FOREIGN)
def test_any_other_answer_is_not_ours(reply: bytes) -> None:
    with answering(reply) as (port, _):
        assert probe.health("127.0.0.1", port) is None


def test_a_closed_port_is_not_ours() -> None:
    assert probe.health("127.0.0.1", probe.free_port("127.0.0.1")) is None


def test_a_port_is_free_until_somebody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert not probe.is_free("127.0.0.1", port)
    assert probe.is_free("127.0.0.1", port)


@contextmanager
def showing(files: certificate.Files) -> Iterator[int]:
    """Stand in for a proxy: answer one CONNECT, then show a certificate; yields the port."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.cert, files.key)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, suppress(OSError):
                assert connection.recv(4096).startswith(b"CONNECT api.anthropic.com:443 ")
                connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


def test_a_proxy_is_trusted_by_an_agent_that_has_its_authority(tmp_path: Path) -> None:
    files = certificate.make(tmp_path, ["api.anthropic.com"])
    with showing(files) as port:
        assert probe.trusted("127.0.0.1", port, files.ca)


def test_a_proxy_is_not_trusted_by_an_agent_with_another_authority(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = certificate.make(tmp_path / "other", ["api.anthropic.com"])
    with showing(certificate.make(tmp_path, ["api.anthropic.com"])) as port:
        assert not probe.trusted("127.0.0.1", port, other.ca)


@pytest.mark.parametrize("bundle", ["absent.pem", "empty.pem"])
def test_nothing_is_trusted_by_an_agent_without_an_authority(tmp_path: Path, bundle: str) -> None:
    (tmp_path / "empty.pem").touch()
    assert not probe.trusted("127.0.0.1", probe.free_port("127.0.0.1"), tmp_path / bundle)


def test_a_closed_port_is_not_trusted(tmp_path: Path) -> None:
    files = certificate.make(tmp_path, ["api.anthropic.com"])
    assert not probe.trusted("127.0.0.1", probe.free_port("127.0.0.1"), files.ca)
