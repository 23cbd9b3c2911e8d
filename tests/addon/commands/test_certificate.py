"""Whose rule: a stolen key of ours must be of no use against any site that is not a provider."""

import datetime
import ipaddress
import os
import shutil
import socket
import ssl
import stat
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from mitmproxy.certs import CertStore
from openmem_addon import hosts
from openmem_addon.commands import certificate
from openmem_addon.commands.certificate import Authority

NOW = datetime.datetime.now(datetime.UTC)  # the certificates are judged by the clients' real clock
PRIVATE = hosts.parse("10.0.0.7:4000")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def ensure(directory: Path, *extra: hosts.Host, now: datetime.datetime = NOW) -> Authority:
    return certificate.ensure(directory, (*hosts.PROVIDERS, *extra), now=now)


def read(authority: Authority) -> x509.Certificate:
    return x509.load_pem_x509_certificate(authority.certificate.read_bytes())


def test_the_key_and_its_folder_are_the_owners_alone(tmp_path: Path) -> None:
    directory = tmp_path / "certs"
    directory.mkdir(mode=0o755)
    before = os.umask(0)
    try:
        authority = ensure(directory)
    finally:
        os.umask(before)
    assert mode(directory) == 0o700
    assert mode(authority.key) == 0o600
    assert b"PRIVATE KEY" in authority.key.read_bytes()
    assert b"PRIVATE KEY" not in authority.certificate.read_bytes()


def test_nothing_is_issued_anew_while_the_hosts_stay(tmp_path: Path) -> None:
    first = ensure(tmp_path).key.read_bytes()
    assert ensure(tmp_path, now=NOW + datetime.timedelta(days=300)).key.read_bytes() == first


def test_other_hosts_bring_another_certificate_for_the_same_key(tmp_path: Path) -> None:
    before = read(ensure(tmp_path))
    after = read(ensure(tmp_path, PRIVATE))
    assert before.public_key() == after.public_key()
    assert before != after
    assert read(ensure(tmp_path)).extensions.get_extension_for_class(x509.NameConstraints) == (
        before.extensions.get_extension_for_class(x509.NameConstraints)
    )


def test_a_certificate_is_renewed_before_it_expires(tmp_path: Path) -> None:
    before = read(ensure(tmp_path))
    after = read(ensure(tmp_path, now=before.not_valid_after_utc - datetime.timedelta(days=29)))
    assert after.not_valid_after_utc > before.not_valid_after_utc


def test_an_authority_without_constraints_is_replaced(tmp_path: Path) -> None:
    CertStore.create_store(tmp_path, "mitmproxy", 2048)
    unlimited = read(Authority(tmp_path))
    constrained = read(ensure(tmp_path))
    assert constrained.public_key() == unlimited.public_key()
    assert constrained.extensions.get_extension_for_class(x509.NameConstraints).critical


@pytest.mark.parametrize(
    "damage", [b"", b"not PEM", b"-----BEGIN RSA PRIVATE KEY-----\nAAAA\n-----END RSA PRIVATE KEY-----\n"]
)
def test_a_damaged_file_is_replaced(tmp_path: Path, damage: bytes) -> None:
    (tmp_path / "mitmproxy-ca.pem").write_bytes(damage)
    authority = ensure(tmp_path)
    assert x509.load_pem_x509_certificate(authority.key.read_bytes()) == read(authority)


def test_two_first_starts_agree_on_one_key(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = {pool.submit(ensure, tmp_path).result().certificate.read_bytes() for _ in range(4)}
    assert len(found) == 1


def test_the_constraints_permit_the_hosts_and_exclude_every_address() -> None:
    constraints = certificate.constraints(hosts.PROVIDERS)
    assert constraints.permitted_subtrees == [
        x509.DNSName(name) for name in ("api.anthropic.com", "api.openai.com", "chatgpt.com", "openrouter.ai")
    ]
    assert constraints.excluded_subtrees == [
        x509.IPAddress(ipaddress.ip_network("0.0.0.0/0")),
        x509.IPAddress(ipaddress.ip_network("::/0")),
    ]


def test_an_address_among_the_hosts_is_permitted_alone_of_its_kind() -> None:
    constraints = certificate.constraints([*hosts.PROVIDERS, PRIVATE])
    assert x509.IPAddress(ipaddress.ip_network("10.0.0.7/32")) in (constraints.permitted_subtrees or [])
    assert constraints.excluded_subtrees == [x509.IPAddress(ipaddress.ip_network("::/0"))]


def test_a_name_below_another_needs_no_constraint_of_its_own() -> None:
    listed = [hosts.parse("example.com"), hosts.parse("llm.example.com"), hosts.parse("notexample.com")]
    assert certificate.constraints(listed).permitted_subtrees == [
        x509.DNSName("example.com"),
        x509.DNSName("notexample.com"),
    ]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return certificate.ensure(tmp_path_factory.mktemp("certs"), (*hosts.PROVIDERS, PRIVATE), now=NOW)


ACCEPTED = ("api.anthropic.com", "eu.chatgpt.com", "10.0.0.7")
REFUSED = ("www.example.com", "api.anthropic.com.example.net", "10.0.0.8", "2001:db8::1")


@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED])
def test_python_accepts_what_is_listed_and_refuses_the_rest(authority: Authority, name: str) -> None:
    """Strict, as Python 3.13 is by default: the signature alone would let every one of them pass."""
    context = ssl.create_default_context(cafile=str(authority.certificate))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    with serving(authority, name) as port, socket.create_connection(("127.0.0.1", port)) as raw:
        if name in ACCEPTED:
            with context.wrap_socket(raw, server_hostname=name) as wrapped:
                assert wrapped.recv(2) == b"ok"
        else:
            with pytest.raises(ssl.SSLCertVerificationError, match="subtree violation"):
                context.wrap_socket(raw, server_hostname=name)


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node on this machine")
@pytest.mark.parametrize("name", [*ACCEPTED, *REFUSED])
def test_node_accepts_what_is_listed_and_refuses_the_rest(authority: Authority, name: str) -> None:
    script = f"""
      const tls = require("tls");
      const names = require("net").isIP({name!r}) ? {{}} : {{servername: {name!r}}};
      const socket = tls.connect({{host: "127.0.0.1", port: +process.argv[1], ...names,
        checkServerIdentity: (_, peer) => tls.checkServerIdentity({name!r}, peer)}});
      socket.on("data", data => {{ console.log(String(data)); process.exit(0); }});
      socket.on("error", error => {{ console.log(error.message); process.exit(1); }});
    """
    environ = {**os.environ, "NODE_EXTRA_CA_CERTS": str(authority.certificate)}
    environ = {key: value for key, value in environ.items() if key not in ("SSL_CERT_FILE", "SSL_CERT_DIR")}
    with serving(authority, name) as port:
        done = subprocess.run(
            ["node", "-e", script, str(port)], env=environ, capture_output=True, text=True, timeout=60, check=False
        )
    expected = "ok" if name in ACCEPTED else "subtree violation"
    assert expected in done.stdout, done.stderr


@contextmanager
def serving(authority: Authority, name: str) -> Iterator[int]:
    """Serve one TLS connection with a certificate for `name` signed by mitmproxy from the authority's files."""
    store = CertStore.from_store(authority.directory, "mitmproxy", 2048)
    general = x509.IPAddress(ipaddress.ip_address(name)) if hosts.is_address(name) else x509.DNSName(name)
    entry = store.get_cert(name, [general])
    chain = authority.directory / f"leaf-{name.replace(':', '_')}.pem"
    chain.write_bytes(authority.key.read_bytes().split(b"-----BEGIN CERTIFICATE")[0] + entry.cert.to_pem())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            try:
                with context.wrap_socket(connection, server_side=True) as wrapped:
                    wrapped.sendall(b"ok")
            except OSError:
                connection.close()  # the refusal this test is about

        thread = threading.Thread(target=answer)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)
        assert not thread.is_alive()


def test_looking_whether_it_is_current_makes_and_changes_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "certs")
    assert not certificate.is_current(authority, hosts.PROVIDERS, now=NOW)
    assert not authority.directory.exists()
    ensure(authority.directory)
    before = authority.key.read_bytes()
    assert certificate.is_current(authority, hosts.PROVIDERS, now=NOW)
    assert not certificate.is_current(authority, (*hosts.PROVIDERS, PRIVATE), now=NOW)
    assert not certificate.is_current(authority, hosts.PROVIDERS, now=NOW + datetime.timedelta(days=720))
    assert authority.key.read_bytes() == before
