"""Own what the agent's process is told to trust: the certificate bundles and the variables that name them.

Variables of the second kind (SSL_CERT_FILE) replace a client's whole trust store, and all hosts that are not
providers keep their own certificates: their bundle therefore holds the machine's roots too.
"""

import re
import ssl
from collections.abc import Iterable, Mapping
from pathlib import Path

import certifi
from openmem_store import layout

from openmem_addon.commands.certificate import Authority

_INHERITED = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "CODEX_CA_CERTIFICATE", "CURL_CA_BUNDLE")
"""Where a user may already name a company's roots; what they name must go on being trusted."""

_SYSTEM = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Arch, Alpine
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora
    "/etc/ssl/cert.pem",  # macOS, BSD
)

_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----\s.+?-----END CERTIFICATE-----", re.DOTALL)


def write_bundles(authority: Authority, environ: Mapping[str, str]) -> None:
    """Write `roots.pem` and `bundle.pem` beside the authority, from the machine's roots and the inherited files.

    Files of our own folder are left out: a launcher started by an agent that we launched inherits them.
    """
    own = authority.directory.resolve()
    inherited = [Path(value) for name in _INHERITED if (value := environ.get(name))]
    named = [path for path in inherited if own not in path.resolve().parents]
    openssl = ssl.get_default_verify_paths().openssl_cafile
    roots = certificates([*named, Path(openssl), *map(Path, _SYSTEM), Path(certifi.where())])
    _replace(authority.roots, roots)
    _replace(authority.bundle, [*certificates([authority.certificate]), *roots])


def certificates(files: Iterable[Path]) -> list[bytes]:
    """Return the PEM blocks of `files` in order, each once; a file that is absent or unreadable counts as empty."""
    seen: dict[bytes, bytes] = {}
    for path in files:
        try:
            content = path.read_bytes()
        except OSError:
            continue
        for block in _BLOCK.findall(content):
            seen.setdefault(b"".join(block.split()), block)
    return list(seen.values())


def variables(authority: Authority, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make Node, Rust and Python clients trust the authority.

    Node adds NODE_EXTRA_CA_CERTS to its own roots, so the certificate alone is enough there, unless the user
    has named a file of their own that it would replace.
    """
    extra = authority.bundle if environ.get("NODE_EXTRA_CA_CERTS") else authority.certificate
    return {
        "NODE_EXTRA_CA_CERTS": str(extra),
        "CODEX_CA_CERTIFICATE": str(authority.bundle),
        "SSL_CERT_FILE": str(authority.bundle),
        "REQUESTS_CA_BUNDLE": str(authority.bundle),
        "CURL_CA_BUNDLE": str(authority.bundle),
    }


def _replace(path: Path, blocks: Iterable[bytes]) -> None:
    content = b"\n".join(blocks) + b"\n"
    if not path.is_file() or path.read_bytes() != content:
        layout.replace(path, content)
