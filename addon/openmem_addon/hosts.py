"""Own which hosts are providers: the built-in table, how a setting names more, and the pattern mitmproxy matches.

Pure, and shared: the commands build the certificate and the interception list from it, the request path asks it.
"""

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

import msgspec

_DEFAULT_PORTS = {"": 443, "https": 443, "http": 80}
_LABEL = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_FORM = "give host, host:port, *.host, an IP address or a URL"


class Host(msgspec.Struct, frozen=True, order=True):
    """One provider host and the port it is asked on."""

    name: str
    """Lower case, without a leading `*.` and without brackets."""
    port: int = 443
    wildcard: bool = False
    """True for `*.name`: every host below `name`, not `name` itself."""

    @property
    def is_address(self) -> bool:
        return is_address(self.name)

    @property
    def pattern(self) -> str:
        """A regex for `host:port`, anchored at both ends: mitmproxy searches without case."""
        below = r"(?:[a-z0-9_-]+\.)+" if self.wildcard else ""
        return rf"^{below}{re.escape(self.name)}:{self.port}$"


def is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def parse(entry: str) -> Host:
    """Read one host as a person writes it: `host`, `host:port`, `*.host`, an IP address, or a URL.

    Raises ValueError that names the entry and the forms allowed.
    """
    text = entry.strip().lower()
    if text.count(":") > 1 and "/" not in text and not text.startswith("["):
        text = f"[{text}]"
    scheme, separator, rest = text.rpartition("://")
    try:
        parts = urlsplit(f"//{rest}")
        port = parts.port or _DEFAULT_PORTS[scheme]
        name, wildcard = _name(parts)
    except (ValueError, KeyError):
        raise ValueError(f"{entry!r} names no host: {_FORM}") from None
    if not separator and parts.path:
        raise ValueError(f"{entry!r} names no host: {_FORM}")
    return Host(name, port, wildcard)


def _name(parts: SplitResult) -> tuple[str, bool]:
    full = (parts.hostname or "").rstrip(".")
    name = full.removeprefix("*.")
    if not is_address(name) and not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise ValueError(full)
    return name, name != full


PROVIDERS = tuple(
    parse(entry) for entry in ("api.anthropic.com", "api.openai.com", "chatgpt.com", "*.chatgpt.com", "openrouter.ai")
)
"""Always intercepted. A login of the second vendor may be served from any host below chatgpt.com."""


def permits(hosts: Iterable[Host], name: str, port: int) -> bool:
    """Say whether `name:port` is one of `hosts`; the same answer as their patterns give."""
    target = f"{name.rstrip('.')}:{port}"
    return any(re.search(host.pattern, target, re.IGNORECASE) for host in hosts)
