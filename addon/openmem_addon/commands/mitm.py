"""Own the command line of mitmproxy: our options, the user's after them, and what the user's say.

Reads only what it must know of the user's arguments (address, modes, configuration folder); everything else
goes on to mitmproxy unread, which is the judge of it.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from openmem_addon import hosts
from openmem_addon.hosts import Host

LOOPBACK = "127.0.0.1"
PORT = 8080
_LAST_PORT = 65535

_OPTIONS = {
    # The upstream certificate's names would be copied into ours and break the name constraints.
    "upstream_cert": "false",
    # Only then may a host be redirected, or answered, without a connection to it.
    "connection_strategy": "lazy",
    # Models think in silence for longer than the default of ten minutes, after which the connection is cut.
    "tcp_timeout": "3600",
    # Codex resets an HTTP/2 stream after its last event; over HTTP/1.1 a response ends as a response.
    "http2": "false",
    # Larger bodies than any context window holds are passed through without being held in memory.
    "stream_large_bodies": "64m",
    # No page of mitmproxy's own in reach of the agent.
    "onboarding": "false",
}

# Warnings and our own lines; never a line per request, whose path could hold a secret.
_OPTIONS_OF_MITMDUMP = {"termlog_verbosity": "warn", "flow_detail": "0"}
_OPTIONS_OF_MITMWEB = {"termlog_verbosity": "warn"}

_FLAGS = {
    "listen_host": ("--listen-host",),
    "listen_port": ("--listen-port", "-p"),
    "mode": ("--mode", "-m"),
    "confdir": (),
    "allow_hosts": ("--allow-hosts",),
    "web_port": ("--web-port",),
}
"""The spellings of each option we read, beside `--set name=value`."""


class Arguments(msgspec.Struct, frozen=True):
    """The user's mitmproxy arguments and what they say about the options we read."""

    given: tuple[str, ...] = ()

    def values(self, option: str) -> list[str]:
        """Return every value given for `option`, in order."""
        return list(self._values(option, _FLAGS.get(option, ())))

    def last(self, option: str, default: str) -> str:
        return (self.values(option) or [default])[-1]

    @property
    def port(self) -> int:
        """Where the proxy will listen: the first mode's own port, or the common one.

        Raises ValueError for a port that is not a number.
        """
        text = self._own[1] or self.last("listen_port", str(PORT))
        if not text.isdecimal() or not 0 < int(text) <= _LAST_PORT:
            raise ValueError(f"listen port {text!r} is not a number from 1 to 65535")
        return int(text)

    @property
    def host(self) -> str:
        """Where the proxy will listen: the first mode's own address, or the common one."""
        return self._own[0] or self.last("listen_host", LOOPBACK)

    @property
    def _own(self) -> tuple[str, str]:
        """Address and port of the first mode's own, each empty where it has none."""
        modes = self.values("mode")
        host, _, port = modes[0].rpartition("@")[2].rpartition(":") if modes and "@" in modes[0] else ("", "", "")
        return host, port

    @property
    def only_the_port(self) -> bool:
        """True when nothing but the port is asked for."""
        port = self.last("listen_port", "")
        spellings = ((), ("--listen-port", port), ("-p", port), (f"--listen-port={port}",), (f"-p{port}",))
        return self.given in spellings

    @property
    def reverse_upstreams(self) -> tuple[Host, ...]:
        """The hosts that reverse modes lead to. Raises ValueError for one that cannot be read."""
        specs = (mode.partition("@")[0] for mode in self.values("mode") if mode.startswith("reverse:"))
        return tuple(hosts.parse(spec.removeprefix("reverse:")) for spec in specs)

    @property
    def is_reverse(self) -> bool:
        return any(mode.startswith("reverse:") for mode in self.values("mode"))

    def _values(self, option: str, flags: tuple[str, ...]) -> Iterator[str]:
        rest = iter(self.given)
        for argument in rest:
            name, separator, value = argument.partition("=")
            if argument == "--set" or name == "--set":
                setting = value if separator else next(rest, "")
                key, _, text = setting.partition("=")
                if key == option:
                    yield text
            elif name in flags:
                yield value if separator else next(rest, "")
            elif any(len(flag) == 2 and argument.startswith(flag) for flag in flags):
                yield argument[2:]


def arguments(
    given: Arguments, *, script: Path, confdir: Path, roots: Path | None, allowed: Iterable[Host], web: bool = False
) -> list[str]:
    """Return mitmproxy's arguments: ours first, so that the user's win, and none of ours that the user sets.

    `roots` are the certificates an upstream must be signed by; None leaves mitmproxy's own. With `web` they are those
    of mitmweb, whose page goes to the port behind the proxy's.
    """
    options = {**_OPTIONS, **(_OPTIONS_OF_MITMWEB if web else _OPTIONS_OF_MITMDUMP), "confdir": str(confdir)}
    if web:
        options["web_port"] = str(given.port + 1 if given.port < _LAST_PORT else given.port - 1)
    if roots is not None:
        options["ssl_verify_upstream_trusted_ca"] = str(roots)
    ours = ["-s", str(script), "--listen-host", LOOPBACK, "--listen-port", str(PORT)]
    for name, value in options.items():
        if not given.values(name):
            ours += ["--set", f"{name}={value}"]
    if not given.values("allow_hosts"):
        for host in dict.fromkeys((*allowed, *given.reverse_upstreams)):
            ours += ["--set", f"allow_hosts={host.pattern}"]
    return [*ours, *given.given]


def with_port(given: Sequence[str], port: int) -> Arguments:
    """Return the arguments with the port they listen on set last."""
    return Arguments((*given, "--listen-port", str(port)))
