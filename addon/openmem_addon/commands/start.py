"""Own `proxy` and `web`: the proxy in the foreground, and what a person is told when it starts."""

import datetime
import ipaddress
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from openmem_store import version
from openmem_store.settings import Settings

from openmem_addon.commands import certificate, checkout, mitm, preferences, probe, trust
from openmem_addon.commands.certificate import Authority
from openmem_addon.commands.clients import CLIENTS, Client

HELP = """\
usage: ./run.sh [proxy] [arguments of mitmdump]
       ./run.sh web [arguments of mitmweb]

Starts the proxy in the foreground on 127.0.0.1:8080 and prints the line to paste per agent; web adds mitmproxy's web
page on the next port, and prints its address with the token that it asks for. The arguments go to mitmproxy, for
example:

  --listen-port 8081                    another port
  --web-port 9000                       another port for the page of web
  --mode reverse:http://127.0.0.1:9000  for an agent that is told a base URL
  --options                             lists what --set NAME=VALUE can set"""

_TOOLS = {"proxy": "mitmdump", "web": "mitmweb"}

_ANY = ("", "0.0.0.0", "::")
"""Addresses that stand for every one of this machine's; no agent can be sent to them."""


def main(name: str, words: Sequence[str]) -> int:
    """Become mitmproxy with the addon. Returns an exit code only where that is not to be done."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    given = mitm.Arguments(tuple(words))
    try:
        settings = preferences.load()
        allowed = preferences.provider_hosts(settings)
        preferences.prepare(settings)
        port, host = given.port, given.host
        confdir = Path(given.last("confdir", str(checkout.CERTIFICATES)))
        if confdir == checkout.CERTIFICATES:
            certificate.ensure(confdir, allowed, now=datetime.datetime.now(datetime.UTC))
        authority = Authority(confdir)
        trust.write_bundles(authority, os.environ)
        arguments = mitm.arguments(
            given,
            script=checkout.addon_script(),
            confdir=confdir,
            roots=authority.roots,
            allowed=allowed,
            web=name == "web",
        )
    except (ValueError, OSError) as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 1
    if not probe.is_free(host, port):
        return _taken(name, given, host, port)
    if warning := exposed(host):
        print(f"openmem-context: {warning}", file=sys.stderr)
    for line in banner(settings, authority, os.environ, host=host, port=port, reverse=given.is_reverse):
        print(line)
    sys.stdout.flush()
    tool = Path(sys.executable).with_name(_TOOLS[name])
    os.execv(sys.executable, [sys.executable, "-P", str(tool), *arguments])


def exposed(host: str) -> str | None:
    """Return the warning about an address that this machine is not alone in reaching; None for the loopback."""
    try:
        alone = ipaddress.ip_address(host).is_loopback
    except ValueError:
        alone = host == "localhost"
    if alone:
        return None
    return (
        f"it listens on {host or 'every address'}: others on the network can reach it, add to what is stored, and may "
        "read what it puts into prompts; without --listen-host it is this machine's alone"
    )


def banner(
    settings: Settings, authority: Authority, environ: Mapping[str, str], *, host: str, port: int, reverse: bool
) -> list[str]:
    """Return what a person is told: the line to paste per agent, then where prompts are, how long, how to end it."""
    place = preferences.readable(settings.root)
    days = f"{settings.ttl_days} days after a session's last request" if settings.ttl_days else "for ever"
    lines = paste_lines(authority, environ, host=mitm.LOOPBACK if host in _ANY else host, port=port, reverse=reverse)
    return [
        f"OpenMem Context listens on {host}:{port}. Start your agent in another terminal, with one of these lines:",
        *(f"  {line}" for line in lines),
        f"Stored in clear text: each message of each session, in {place} (you alone can read it).",
        f"Kept {days} (CONTEXT_STORE_TTL_DAYS). Stop the proxy with Ctrl-C.",
        "Delete everything with: ./run.sh forget --all",
    ]


def paste_lines(authority: Authority, environ: Mapping[str, str], *, host: str, port: int, reverse: bool) -> list[str]:
    """Return the shell line per agent that starts it through this proxy."""
    return [
        _by_base_url(client, host, port) if reverse else _by_proxy(client, authority, environ, host, port)
        for client in CLIENTS.values()
    ]


def _by_proxy(client: Client, authority: Authority, environ: Mapping[str, str], host: str, port: int) -> str:
    certificate_file = shlex.quote(trust.variables(authority, environ)[client.trusts])
    return f"HTTPS_PROXY=http://{host}:{port} {client.trusts}={certificate_file} {client.command}"


def _by_base_url(client: Client, host: str, port: int) -> str:
    """Return the line for a reverse proxy; it leads to one provider, whose agents it serves."""
    urls = {
        endpoint.variable: f"http://{host}:{port}{urlsplit(endpoint.default).path}" for endpoint in client.endpoints
    }
    told, words = client.tell(urls)
    return " ".join([*(f"{name}={url}" for name, url in told.items()), shlex.join([client.command, *words])])


def _taken(name: str, given: mitm.Arguments, host: str, port: int) -> int:
    """Say who has the port. Success when it is the very proxy that was asked for."""
    elsewhere = f"choose another port with `./run.sh {name} --listen-port N`"
    answer = probe.health(host, port, reverse=given.is_reverse)
    if answer is None:
        line = f"port {port} is taken by another program: {elsewhere}"
    elif answer.version != version.code_hash():
        line = (
            f"a proxy of other code (process {answer.pid}) runs on port {port}: stop it with `kill {answer.pid}` "
            f"and start again, or {elsewhere}"
        )
    elif not given.only_the_port:
        line = (
            f"a proxy of this code (process {answer.pid}) already runs on port {port}, perhaps without "
            f"{shlex.join(given.given)}: stop it, or {elsewhere}"
        )
    else:
        print(f"A proxy of this code already runs on {host}:{port} (process {answer.pid}): nothing to do.")
        return 0
    print(f"openmem-context: {line}", file=sys.stderr)
    return 1
