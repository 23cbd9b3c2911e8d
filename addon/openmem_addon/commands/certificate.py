"""Own the certificate authority: a key that can speak for the provider hosts and for nothing else.

mitmproxy reads `mitmproxy-ca.pem` from its configuration folder. Left to itself it makes an authority that may
sign for any site; ours carries critical name constraints, so a stolen key is of no use against other sites.
It is handed to the agent's process by environment variables and never enters a system store.
"""

import datetime
import fcntl
import ipaddress
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from openmem_store import layout

from openmem_addon.hosts import Host

_KEY_BITS = 2048  # mitmproxy's own size; the leaf certificates use the same key
_BACKDATE = datetime.timedelta(days=2)  # a clock that is a little behind must not refuse a new certificate
_LIFETIME = datetime.timedelta(days=730)
_RENEW_BEFORE = datetime.timedelta(days=30)
_SUBJECT = x509.Name(
    [
        x509.NameAttribute(NameOID.COMMON_NAME, "OpenMem Context, providers only"),
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "OpenMem Context on this machine"),
    ]
)
_EVERY_ADDRESS = (ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0"))


class Authority(msgspec.Struct, frozen=True):
    """Where the authority of one configuration folder lies."""

    directory: Path

    @property
    def key(self) -> Path:
        """Private key and certificate in one file, mode 600, as mitmproxy reads them."""
        return self.directory / "mitmproxy-ca.pem"

    @property
    def certificate(self) -> Path:
        """The certificate alone: what a client is told to trust."""
        return self.directory / "mitmproxy-ca-cert.pem"

    @property
    def roots(self) -> Path:
        """The machine's own roots, for the proxy's connections to providers."""
        return self.directory / "roots.pem"

    @property
    def bundle(self) -> Path:
        """The certificate and the machine's roots, for variables that replace a client's trust store."""
        return self.directory / "bundle.pem"


def ensure(directory: Path, hosts: Iterable[Host], *, now: datetime.datetime) -> Authority:
    """Make or renew the authority so that it speaks for exactly `hosts`; `now` is an aware time.

    The key is kept when only the certificate changes: a proxy that runs with the older certificate and an agent
    that trusts the newer one still understand each other.
    """
    authority = Authority(directory)
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory.chmod(0o700)
    wanted = constraints(hosts)
    with _locked(directory):
        key, certificate = _read(authority.key)
        if certificate is None or not _serves(certificate, wanted, now):
            key = key or rsa.generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
            certificate = _issue(key, wanted, now)
            private = key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
            layout.replace(authority.key, private + certificate.public_bytes(serialization.Encoding.PEM))
        authority.key.chmod(0o600)
        _write_if_changed(authority.certificate, certificate.public_bytes(serialization.Encoding.PEM))
    return authority


def is_current(authority: Authority, hosts: Iterable[Host], *, now: datetime.datetime) -> bool:
    """Return whether the authority speaks for exactly `hosts` and for some time yet; `now` is an aware time."""
    _, certificate = _read(authority.key)
    return certificate is not None and _serves(certificate, constraints(hosts), now)


def constraints(hosts: Iterable[Host]) -> x509.NameConstraints:
    """Return the constraints that permit `hosts` and nothing else.

    A DNS constraint covers the name and all below it. Names of one kind do not limit the other: an authority
    that may sign for `api.example` alone may still sign for every address, unless addresses are excluded.
    """
    hosts = tuple(hosts)
    names = sorted({host.name for host in hosts})
    covered = [name for name in names if not any(name.endswith(f".{other}") for other in names)]
    addresses = sorted({host.name for host in hosts if host.is_address})
    permitted: list[x509.GeneralName] = [x509.DNSName(name) for name in covered]
    permitted += [x509.IPAddress(ipaddress.ip_network(address)) for address in addresses]
    versions = {ipaddress.ip_address(address).version for address in addresses}
    excluded = [x509.IPAddress(network) for network in _EVERY_ADDRESS if network.version not in versions]
    return x509.NameConstraints(permitted, excluded or None)


def _issue(key: rsa.RSAPrivateKey, wanted: x509.NameConstraints, now: datetime.datetime) -> x509.Certificate:
    usage = x509.KeyUsage(
        digital_signature=False,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=True,
        crl_sign=True,
        encipher_only=False,
        decipher_only=False,
    )
    public = key.public_key()
    return (
        x509.CertificateBuilder()
        .subject_name(_SUBJECT)
        .issuer_name(_SUBJECT)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATE)
        .not_valid_after(now - _BACKDATE + _LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(wanted, critical=True)
        .sign(key, hashes.SHA256())
    )


def _read(path: Path) -> tuple[rsa.RSAPrivateKey | None, x509.Certificate | None]:
    """Return the key and certificate of a file; None for what is absent, damaged or does not belong together."""
    try:
        content = path.read_bytes()
        key = serialization.load_pem_private_key(content, None)
    except (FileNotFoundError, ValueError, TypeError):
        return None, None
    if not isinstance(key, rsa.RSAPrivateKey):
        return None, None
    try:
        certificate = x509.load_pem_x509_certificate(content)
    except ValueError:
        return key, None
    return key, certificate if certificate.public_key() == key.public_key() else None


def _serves(certificate: x509.Certificate, wanted: x509.NameConstraints, now: datetime.datetime) -> bool:
    if certificate.not_valid_after_utc - now < _RENEW_BEFORE or certificate.subject != _SUBJECT:
        return False
    try:
        found = certificate.extensions.get_extension_for_class(x509.NameConstraints)
    except x509.ExtensionNotFound:
        return False
    return found.critical and found.value == wanted


def _write_if_changed(path: Path, content: bytes) -> None:
    if not path.is_file() or path.read_bytes() != content:
        layout.replace(path, content)


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Let one process at a time decide: two first starts must not end with two keys."""
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
