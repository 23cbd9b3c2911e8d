"""Own the launchers: what the user's words ask for, which proxy that means, and the agent's environment."""

import datetime
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from openmem_store import version
from openmem_store.settings import Settings

from openmem_addon.commands import agent, certificate, checkout, environment, mitm, preferences, probe, trust
from openmem_addon.commands.agent import say
from openmem_addon.commands.clients import ANY, CLIENTS, Client
from openmem_addon.commands.supervisor import Plan, StartError, foreign, python_command

HELP = """usage: ./run.sh claude|codex|opencode [options] [arguments of the agent]
       ./run.sh run [options] -- COMMAND [arguments]

  --port N         use, or start, the proxy on this port (default 8080)
  --own-proxy      start a proxy of its own on a free port
  --no-ca          no certificate: a proxy of its own in reverse mode, and a base URL
  --proxy-arg ARG  one more argument for mitmdump; repeat it for each word

Options stand before the agent's own arguments; `--` ends them."""


class Options(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    """What follows our own options: the agent's arguments, or for `run` the command."""
    port: int | None = None
    own_proxy: bool = False
    no_ca: bool = False
    proxy_arguments: tuple[str, ...] = ()
    help: bool = False


def main(name: str, words: Sequence[str]) -> int:
    """Run the launcher `name` (`run`, or a key of CLIENTS) and return the exit code."""
    try:
        options = parse(words)
        if options.help:
            print(HELP)
            return 0
        program, *arguments = find(name, options.command, os.environ)
    except ValueError as error:
        say(str(error))
        return 2
    except FileNotFoundError as error:
        say(str(error))
        return 127
    try:
        launched = prepare(CLIENTS.get(name, ANY), options, preferences.load(), dict(os.environ))
    except (ValueError, StartError, OSError) as error:
        say(str(error))
        return 1
    return agent.run((program, *launched.words, *arguments), launched.environ, launched.plan)


def parse(words: Sequence[str]) -> Options:
    """Read our options up to the first word that is not one. Raises ValueError naming the word that is wrong."""
    port, flags, arguments = None, set[str](), list[str]()
    rest = list(words)
    while rest:
        word, separator, value = rest[0].partition("=")
        if word in ("--own-proxy", "--no-ca", "--help"):
            flags.add(word)
        elif word in ("--port", "--proxy-arg"):
            if not separator:
                if len(rest) < 2:
                    raise ValueError(f"{word} needs a value")
                value = rest.pop(1)
            if word == "--proxy-arg":
                arguments.append(value)
            elif value.isdecimal() and 0 < int(value) < 65536:
                port = int(value)
            else:
                raise ValueError(f"--port {value!r} is not a number from 1 to 65535")
        else:
            break
        rest.pop(0)
    if rest and rest[0] == "--":
        rest.pop(0)
    return Options(tuple(rest), port, "--own-proxy" in flags, "--no-ca" in flags, tuple(arguments), "--help" in flags)


def find(name: str, words: Sequence[str], environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the command to run with the program's path found.

    Raises ValueError where no command is given, FileNotFoundError with what to do where there is no such program.
    """
    if name == "run":
        if not words:
            raise ValueError("run needs a command: ./run.sh run -- COMMAND [arguments]")
        program = shutil.which(words[0], path=environ.get("PATH"))
        if program is None:
            raise FileNotFoundError(f"{words[0]}: no such program on PATH")
        return (program, *words[1:])
    known = CLIENTS[name]
    home = Path(environ.get("HOME", "~")).expanduser()
    candidates = (known.command, *(str(home / place) for place in known.places))
    for candidate in candidates:
        if program := shutil.which(candidate, path=environ.get("PATH")):
            return (program, *words)
    raise FileNotFoundError(f"{known.command} is not installed: {known.install}")


class Launch(msgspec.Struct, frozen=True):
    """All there is to know before anything starts."""

    plan: Plan
    environ: dict[str, str]
    """The agent's environment."""
    words: tuple[str, ...] = ()
    """What goes before the agent's own arguments."""


def prepare(client: Client, options: Options, settings: Settings, environ: dict[str, str]) -> Launch:
    """Decide on the proxy and on what the agent is told; warnings go to stderr.

    Raises ValueError for a setting that cannot be used, StartError for a port and OSError for a folder that cannot.
    """
    preferences.prepare(settings)
    given = mitm.Arguments(options.proxy_arguments)
    allowed = preferences.provider_hosts(settings)
    confdir = Path(given.last("confdir", str(checkout.CERTIFICATES)))
    authority = certificate.Authority(confdir)
    if confdir == checkout.CERTIFICATES:
        certificate.ensure(confdir, allowed, now=datetime.datetime.now(datetime.UTC))
    trust.write_bundles(authority, environ)
    port, shared = _choose_port(options, str(settings.root), authority.bundle)
    words: tuple[str, ...] = ()
    if options.no_ca:
        modes, urls = _reversed(client, environ, port)
        if environment.chain(environ, own_port=port):
            say("HTTPS_PROXY is set, and --no-ca reaches the provider without it")
        told, words = client.tell(urls)
        child = environment.through_base_urls(environ, told)
    else:
        modes = _upstream_mode(given, environ, port)
        for line in environment.bypasses(environ, allowed, client):
            say(line)
        child = environment.through_proxy(environ, port=port, trust=trust.variables(authority, environ))
    arguments = mitm.arguments(
        mitm.with_port((*modes, *options.proxy_arguments), port),
        script=checkout.addon_script(),
        confdir=confdir,
        roots=authority.roots,
        allowed=allowed,
    )
    plan = Plan(
        command=python_command(sys.executable, arguments),
        host=mitm.LOOPBACK,
        port=port,
        version=version.code_hash(),
        root=str(settings.root),
        log=settings.root / "logs" / f"proxy-{port}.log",
        reverse=options.no_ca or given.is_reverse,
        shared=shared,
    )
    return Launch(plan, child, words)


def _reversed(client: Client, environ: Mapping[str, str], port: int) -> tuple[list[str], dict[str, str]]:
    """Return the modes of a proxy that leads to each of a client's providers, and the base URLs that lead to it.

    The first listens on `port`, each other on a port of its own: a base URL has room for no more.
    """
    modes, urls = list[str](), dict[str, str]()
    for number, endpoint in enumerate(client.endpoints):
        listening = port if number == 0 else probe.free_port(mitm.LOOPBACK)
        place = "" if number == 0 else f"@{mitm.LOOPBACK}:{listening}"
        modes += ["--mode", f"reverse:{environment.reverse_upstream(environ, endpoint)}{place}"]
        urls[endpoint.variable] = environment.base_url(environ, endpoint, port=listening)
    return modes, urls


def _upstream_mode(given: mitm.Arguments, environ: Mapping[str, str], port: int) -> list[str]:
    if given.values("mode"):
        return []
    link = environment.chain(environ, own_port=port)
    if link is None:
        return []
    if link.warning:
        say(link.warning)
    return ["--mode", link.mode] if link.mode else []


def _choose_port(options: Options, root: str, bundle: Path) -> tuple[int, bool]:
    """Return the port and whether a proxy already there may be used; `bundle` is what the agent will trust.

    Without --port a port in foreign hands is no reason to fail: the agent gets a proxy of its own elsewhere.
    """
    alone = options.own_proxy or options.no_ca
    if options.port is None and alone:
        return probe.free_port(mitm.LOOPBACK), False
    port = options.port or mitm.PORT
    answer = probe.health(mitm.LOOPBACK, port, reverse=options.no_ca)
    if answer is None and probe.is_free(mitm.LOOPBACK, port):
        return port, not alone
    holder = foreign(answer, version=version.code_hash(), root=root) if answer else "another program"
    if holder is None and not alone and not probe.trusted(mitm.LOOPBACK, port, bundle):
        # An agent that cannot verify its provider fails, or (Codex) tries again for ever.
        holder = "a proxy with another certificate"
    if holder is None and not alone:
        return port, True
    holder = holder or "another proxy of this code"
    if options.port is not None:
        raise StartError(f"port {port} is taken by {holder}: choose another with --port, or use --own-proxy")
    say(f"port {port} is taken by {holder}: this agent gets a proxy of its own")
    return probe.free_port(mitm.LOOPBACK), False
