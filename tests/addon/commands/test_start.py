import datetime
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from openmem_addon import hosts
from openmem_addon.commands import certificate, mitm, probe, start
from openmem_addon.commands.certificate import Authority
from openmem_store import version
from openmem_store.settings import Settings

AUTHORITY = Authority(Path("/o m/certs"))

# --- what a person is told ------------------------------------------------------------------------------------------


def banner(settings: Settings, *, reverse: bool = False) -> list[str]:
    return start.banner(settings, AUTHORITY, {}, host="127.0.0.1", port=8080, reverse=reverse)


def test_a_start_says_what_to_paste_and_what_becomes_of_the_prompts(empty_home: Path) -> None:
    assert banner(Settings(root=empty_home / ".local/share/openmem/context")) == [
        "OpenMem Context listens on 127.0.0.1:8080. Start your agent in another terminal, with one of these lines:",
        "  HTTPS_PROXY=http://127.0.0.1:8080 NODE_EXTRA_CA_CERTS='/o m/certs/mitmproxy-ca-cert.pem' claude",
        "  HTTPS_PROXY=http://127.0.0.1:8080 CODEX_CA_CERTIFICATE='/o m/certs/bundle.pem' codex",
        "  HTTPS_PROXY=http://127.0.0.1:8080 NODE_EXTRA_CA_CERTS='/o m/certs/mitmproxy-ca-cert.pem' opencode",
        "Stored in clear text: each message of each session, in "
        "~/.local/share/openmem/context (you alone can read it).",
        "Kept 30 days after a session's last request (CONTEXT_STORE_TTL_DAYS). Stop the proxy with Ctrl-C.",
        "Delete everything with: ./run.sh forget --all",
    ]


def test_a_store_that_is_kept_for_ever_is_said_to_be(empty_home: Path) -> None:
    assert banner(Settings(root=empty_home, ttl_days=0))[5].startswith("Kept for ever (CONTEXT_STORE_TTL_DAYS).")


def test_a_reverse_proxy_is_reached_by_base_url() -> None:
    assert banner(Settings(root=Path("/store")), reverse=True)[1:4] == [
        "  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 claude",
        "  codex -c 'openai_base_url=\"http://127.0.0.1:8080/v1\"'",
        "  ANTHROPIC_BASE_URL=http://127.0.0.1:8080/v1 OPENAI_BASE_URL=http://127.0.0.1:8080/v1 opencode",
    ]


@pytest.mark.parametrize(("host", "pasted"), [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("10.0.0.1", "10.0.0.1")])
def test_an_address_of_the_network_is_warned_of_and_pasted_as_one_an_agent_reaches(host: str, pasted: str) -> None:
    warning = start.exposed(host)
    assert warning is not None
    assert warning.startswith(f"it listens on {host}: others on the network can reach it")
    lines = start.banner(Settings(root=Path("/store")), AUTHORITY, {}, host=host, port=8080, reverse=False)
    assert lines[0].startswith(f"OpenMem Context listens on {host}:8080. ")
    assert lines[1].startswith(f"  HTTPS_PROXY=http://{pasted}:8080 ")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_an_address_of_this_machine_alone_is_not_warned_of(host: str) -> None:
    assert start.exposed(host) is None


# --- a port that is taken -------------------------------------------------------------------------------------------

OURS = probe.Health("openmem-context", version.code_hash(), 7)
OTHER = probe.Health("openmem-context", "ffffffffffff", 7)

TAKEN = [
    (OURS, [], 0, "A proxy of this code already runs on 127.0.0.1:{port} (process 7): nothing to do."),
    (
        OURS,
        ["-q"],
        1,
        "already runs on port {port}, perhaps without --listen-port {port} -q: stop it, or choose another "
        "port with `./run.sh proxy --listen-port N`",
    ),
    (OTHER, [], 1, "a proxy of other code (process 7) runs on port {port}: stop it with `kill 7` and start again"),
    (None, [], 1, "port {port} is taken by another program: choose another port with `./run.sh proxy --listen-port N`"),
]


@pytest.mark.usefixtures("scratch_certificates")
@pytest.mark.parametrize(("health", "more", "code", "line"), TAKEN)
def test_a_taken_port_says_by_whom_and_what_to_do(
    health: probe.Health | None,
    more: list[str],
    code: int,
    line: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(probe, "health", lambda *_, **__: health)
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        assert start.main("proxy", ["--listen-port", str(port), *more]) == code
    said = capsys.readouterr()
    assert line.format(port=port) in (said.out if code == 0 else said.err)


@pytest.mark.usefixtures("scratch_certificates")
@pytest.mark.parametrize(
    ("words", "variable", "value"),
    [
        (["--listen-port", "http"], "PATH", os.environ["PATH"]),
        (["--mode", "reverse:x y"], "PATH", os.environ["PATH"]),
        ([], "CONTEXT_TRIM_TOKENS", "many"),
    ],
)
def test_what_cannot_be_used_is_said_before_anything_starts(
    words: list[str], variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert start.main("proxy", words) == 1
    assert capsys.readouterr().err.startswith("openmem-context: ")


def test_a_state_folder_that_cannot_be_used_is_said_before_anything_starts(
    empty_home: Path, scratch_certificates: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty_home / "state").touch()
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(empty_home / "state"))
    assert start.main("proxy", []) == 1
    assert capsys.readouterr() == (
        "",
        "openmem-context: the state folder ~/state cannot be used (Not a directory): "
        "name another in OPENMEM_STATE_DIR, or mend this one\n",
    )
    assert not scratch_certificates.exists()


@pytest.fixture
def scratch_certificates(empty_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = empty_home / "certs"
    monkeypatch.setattr("openmem_addon.commands.checkout.CERTIFICATES", folder)
    return folder


# --- the real proxy -------------------------------------------------------------------------------------------------


@pytest.fixture
def proxy(empty_home: Path) -> Iterator[tuple[int, Authority]]:
    """`./run.sh proxy` as a process, in a home of its own and with a certificate of its own."""
    confdir = empty_home / "certs"
    authority = certificate.ensure(confdir, hosts.PROVIDERS, now=datetime.datetime.now(datetime.UTC))
    port = probe.free_port(mitm.LOOPBACK)
    words = ["proxy", "--listen-port", str(port), "--set", f"confdir={confdir}"]
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "openmem_addon.commands.cli", *words], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            while probe.health(mitm.LOOPBACK, port) is None:
                assert process.poll() is None, "the proxy ended"
            yield port, authority
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def connect(proxy_port: int, target: str) -> socket.socket:
    """Ask the proxy for a tunnel to `target` (host:port)."""
    raw = socket.create_connection((mitm.LOOPBACK, proxy_port), timeout=30)
    raw.sendall(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n".encode())
    assert raw.recv(4096).startswith(b"HTTP/1.1 200")
    return raw


def issuer(connection: ssl.SSLSocket) -> str:
    der = connection.getpeercert(binary_form=True)
    assert der is not None
    return x509.load_der_x509_certificate(der).issuer.rfc4514_string()


def test_a_provider_is_intercepted_and_every_other_host_keeps_its_certificate(
    proxy: tuple[int, Authority], tmp_path: Path
) -> None:
    port, authority = proxy
    trusting = ssl.create_default_context(cafile=str(authority.certificate))
    with (
        connect(port, "api.anthropic.com:443") as raw,
        trusting.wrap_socket(raw, server_hostname="api.anthropic.com") as ours,
    ):
        assert "OpenMem Context" in issuer(ours)
    with tls_server(tmp_path) as (target, original):
        unchecked = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
        with connect(port, target) as raw, unchecked.wrap_socket(raw, server_hostname="localhost") as tunnelled:
            assert tunnelled.getpeercert(binary_form=True) == original
            assert tunnelled.recv(100) == b"from the server itself"


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Serve one TLS connection with a certificate of its own; yields host:port and that certificate, DER."""
    from mitmproxy.certs import CertStore

    CertStore.create_store(folder / "foreign", "mitmproxy", 2048)
    chain = folder / "foreign" / "mitmproxy-ca.pem"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    with socket.create_server((mitm.LOOPBACK, 0)) as listener:

        def serve() -> None:
            connection, _ = listener.accept()
            with context.wrap_socket(connection, server_side=True) as wrapped:
                wrapped.sendall(b"from the server itself")

        thread = threading.Thread(target=serve)
        thread.start()
        yield (
            f"localhost:{listener.getsockname()[1]}",
            ssl.PEM_cert_to_DER_cert(chain.read_text().split("KEY-----\n")[-1]),
        )
        thread.join(10)
        assert not thread.is_alive()
