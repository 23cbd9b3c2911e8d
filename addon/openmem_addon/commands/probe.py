"""Own the question who listens on a port: a proxy of ours, something else, or nobody."""

import http.client
import socket
import ssl
from pathlib import Path
from typing import Literal

import msgspec

from openmem_addon import hosts

_THROUGH = "http://openmem.local/health"  # asked of a regular proxy: our addon answers for a host that is none
_DIRECT = "/openmem/health"  # asked of a reverse proxy, which takes paths only
_PATIENCE_S = 2.0  # a loaded machine; an answer takes milliseconds
_LONGEST = 4096  # bytes of an answer that we read: ours is far shorter


class Health(msgspec.Struct, frozen=True):
    """What a proxy of ours says about itself."""

    service: Literal["openmem-context"]
    version: str
    """Code hash of the running code, 12 hex."""
    pid: int
    root: str | None = None
    """Where it stores; None for a proxy that does not say."""
    fail_opens: int = 0
    """Since it started."""
    requests: int = 0


Held = Literal["free", "ours", "other"]
"""How a port is held: by nobody, by a proxy of ours of any kind, by another program."""


class Holder(msgspec.Struct, frozen=True):
    """Who listens on a port."""

    held: Held
    health: Health | None = None
    """What a proxy of ours says; None without one."""


def health(host: str, port: int, *, reverse: bool = False, timeout: float = _PATIENCE_S) -> Health | None:
    """Return the answer of a proxy of ours on `host:port`, None when there is none.

    `timeout` in seconds. Raises nothing: a port that is closed, silent or speaks otherwise is not ours.
    """
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        connection.request("GET", _DIRECT if reverse else _THROUGH, headers={"Host": "openmem.local"})
        answer = connection.getresponse().read(_LONGEST)
        return msgspec.json.decode(answer, type=Health)
    except (OSError, http.client.HTTPException, msgspec.MsgspecError, UnicodeDecodeError):
        return None
    finally:
        connection.close()


def holder(host: str, port: int, *, timeout: float = _PATIENCE_S) -> Holder:
    """Return who listens on `host:port`, asking for a proxy of ours both ways. Raises nothing.

    `timeout` in seconds for each.
    """
    if is_free(host, port):
        return Holder("free")
    # By path first: a reverse proxy sends the other question on to its provider.
    answer = health(host, port, reverse=True, timeout=timeout) or health(host, port, timeout=timeout)
    return Holder("other") if answer is None else Holder("ours", answer)


def forwards(host: str, port: int) -> bool:
    """Say whether a forward proxy of ours listens on `host:port`. Raises nothing."""
    return health(host, port) is not None


def trusted(host: str, port: int, bundle: Path, *, timeout: float = _PATIENCE_S) -> bool:
    """Say whether an agent that trusts `bundle` will accept what the proxy on `host:port` shows for a provider.

    Nothing is asked of the provider: the proxy connects to it only with a first request.
    """
    provider = hosts.PROVIDERS[0]
    try:
        context = ssl.create_default_context(cafile=str(bundle))
        connection = http.client.HTTPSConnection(host, port, timeout=timeout, context=context)
        try:
            connection.set_tunnel(provider.name, provider.port)
            connection.connect()
        finally:
            connection.close()
    except (OSError, http.client.HTTPException):
        return False
    return True


def is_free(host: str, port: int) -> bool:
    """Say whether a server could listen on `host:port` now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True


def free_port(host: str) -> int:
    """Return a port that nobody listens on."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])
