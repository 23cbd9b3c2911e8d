"""Own the agent's environment: how its requests come to the proxy, and what an inherited setting would break.

Pure: takes the inherited environment, returns another. Nothing outside the agent's process is changed.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit
from urllib.request import proxy_bypass_environment  # pyright: ignore[reportAttributeAccessIssue]

import msgspec

from openmem_addon import hosts
from openmem_addon.commands.clients import Client, Endpoint
from openmem_addon.hosts import Host

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Chain(msgspec.Struct, frozen=True):
    """A proxy the user already had, which ours must go through."""

    mode: str | None
    """mitmproxy's mode for it, None when it cannot be chained."""
    warning: str | None = None
    """One line for the user; never holds credentials."""


def through_proxy(environ: Mapping[str, str], *, port: int, trust: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an agent whose HTTPS goes through the proxy, and which trusts `trust`.

    Plain HTTP is left alone: no provider speaks it, and the agent's own servers on this machine do.
    """
    url = f"http://127.0.0.1:{port}"
    return {
        **environ,
        **trust,
        "HTTPS_PROXY": url,
        "https_proxy": url,  # curl and others look at this one first
        **_past_any_proxy(environ),
    }


def through_base_urls(environ: Mapping[str, str], told: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of an agent that speaks plain HTTP to the proxy: no certificate is involved."""
    return {**environ, **told, **_past_any_proxy(environ)}


def base_url(environ: Mapping[str, str], endpoint: Endpoint, *, port: int) -> str:
    """Return the base URL that leads to our port, with the path of the one it stands for."""
    return f"http://127.0.0.1:{port}{urlsplit(_stated(environ, endpoint)).path.rstrip('/')}"


def reverse_upstream(environ: Mapping[str, str], endpoint: Endpoint) -> str:
    """Return where a reverse proxy must lead: the user's own base URL without its path, else the provider's.

    Raises ValueError for a base URL that is not http or https.
    """
    parts = urlsplit(_stated(environ, endpoint))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ValueError(f"{endpoint.variable} must begin with http:// or https://")
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _stated(environ: Mapping[str, str], endpoint: Endpoint) -> str:
    return environ.get(endpoint.variable) or endpoint.default


def _past_any_proxy(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that name what needs no proxy: what was named, and this machine."""
    excluded = [entry.strip() for entry in _get(environ, "NO_PROXY").split(",") if entry.strip()]
    no_proxy = ",".join(dict.fromkeys((*excluded, *_LOOPBACK)))
    return {"NO_PROXY": no_proxy, "no_proxy": no_proxy}


def chain(environ: Mapping[str, str], *, own_port: int) -> Chain | None:
    """Say how to reach the provider through the proxy of the inherited HTTPS_PROXY; None where there is none.

    A proxy on this machine at our own port is ours: the user has exported the line that `./run.sh` prints.
    """
    value = _get(environ, "HTTPS_PROXY") or _get(environ, "ALL_PROXY")
    if not value:
        return None
    parts = urlsplit(value if "://" in value else f"http://{value}")
    try:
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 1080)
    except ValueError:
        return Chain(None, "HTTPS_PROXY has a port that is not a number: the provider is reached without that proxy")
    if parts.hostname in _LOOPBACK and port == own_port:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return Chain(None, "HTTPS_PROXY is not an HTTP proxy, so ours cannot go through it")
    warning = None
    if parts.username:
        warning = (
            "HTTPS_PROXY holds a password, which is not passed on: "
            "give it with --proxy-arg --upstream-auth --proxy-arg USER:PASSWORD"
        )
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return Chain(f"upstream:{parts.scheme}://{host}:{port}", warning)


def bypasses(environ: Mapping[str, str], allowed: Iterable[Host], client: Client) -> list[str]:
    """Return one line per inherited setting by which the agent's requests would pass the proxy by unseen."""
    lines: list[str] = []
    allowed = tuple(allowed)
    stated = [(endpoint, base) for endpoint in client.endpoints if (base := environ.get(endpoint.variable))]
    for endpoint, base in stated:
        try:
            target = hosts.parse(base)
        except ValueError:
            target = None
        if target is None or not hosts.permits(allowed, target.name, target.port) or target.name in _LOOPBACK:
            name = target.name if target else "no host"
            local = target is not None and target.name in _LOOPBACK  # no proxy is asked for it, named or not
            lines.append(
                f"{endpoint.variable} leads to {name}, whose requests are not touched: "
                f"use --no-ca, which goes on to it{'' if local else ', or name it in CONTEXT_PROVIDER_HOSTS'}"
            )
    replaced = {urlsplit(endpoint.default).hostname for endpoint, _ in stated}
    asked = [*(urlsplit(base).hostname or "" for _, base in stated), *(h for h in client.hosts if h not in replaced)]
    excluded = _get(environ, "NO_PROXY")
    lines += [
        f"NO_PROXY names {host}: the agent's requests go past the proxy until it does not"
        for host in asked
        if excluded and proxy_bypass_environment(host, {"no": excluded})
    ]
    return lines


def _get(environ: Mapping[str, str], name: str) -> str:
    return environ.get(name.lower()) or environ.get(name) or ""
