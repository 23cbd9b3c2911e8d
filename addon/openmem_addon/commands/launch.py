"""Own `claude` and `run`: an agent started through the proxy, and everything gone when it ends.

The agent's exit code is ours, 128 + n when signal n ended it. What the launcher has to say goes to stderr, one
line each: stdout belongs to the agent.
"""

import contextlib
import datetime
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType

import msgspec
from openmem_store import version
from openmem_store.layout import Layout
from openmem_store.settings import Settings

from openmem_addon.commands import certificate, checkout, environment, mitm, preferences, probe, trust
from openmem_addon.commands.supervisor import Plan, StartError, Supervisor, foreign, python_command

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_TICK_S = 1.0  # how soon a proxy that another launcher ended is missed; our own child wakes us at once

HELP = """usage: ./run.sh claude [options] [arguments of claude]
       ./run.sh run [options] -- COMMAND [arguments]

  --port N         use, or start, the proxy on this port (default 8080)
  --own-proxy      start a proxy of its own on a free port
  --no-ca          no certificate: a proxy of its own in reverse mode, and a base URL
  --proxy-arg ARG  one more argument for mitmdump; repeat it for each word

Options stand before the agent's own arguments; `--` ends them."""


class Agent(msgspec.Struct, frozen=True):
    """A coding agent that has a launcher of its own."""

    command: str
    install: str
    """What to type where it is missing."""
    places: tuple[str, ...] = ()
    """Where its own installer puts it, below the home directory, when that is not on PATH."""


AGENTS = {
    "claude": Agent(
        "claude", "npm install -g @anthropic-ai/claude-code", (".local/bin/claude", ".claude/local/claude")
    ),
}


class Options(msgspec.Struct, frozen=True):
    command: tuple[str, ...]
    """What follows our own options: the agent's arguments, or for `run` the command."""
    port: int | None = None
    own_proxy: bool = False
    no_ca: bool = False
    proxy_arguments: tuple[str, ...] = ()
    help: bool = False


def main(name: str, words: Sequence[str]) -> int:
    """Run the launcher `name` (`run`, or a key of AGENTS) and return the exit code."""
    try:
        options = parse(words)
        if options.help:
            print(HELP)
            return 0
        command = find(name, options.command, os.environ)
    except ValueError as error:
        _say(str(error))
        return 2
    except FileNotFoundError as error:
        _say(str(error))
        return 127
    settings = preferences.load()
    try:
        plan, environ = prepare(options, settings, dict(os.environ))
    except (ValueError, StartError, FileNotFoundError) as error:
        _say(str(error))
        return 1
    return supervise(command, environ, plan)


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
    agent = AGENTS[name]
    home = Path(environ.get("HOME", "~")).expanduser()
    candidates = (agent.command, *(str(home / place) for place in agent.places))
    for candidate in candidates:
        if program := shutil.which(candidate, path=environ.get("PATH")):
            return (program, *words)
    raise FileNotFoundError(f"{agent.command} is not installed: {agent.install}")


def prepare(options: Options, settings: Settings, environ: dict[str, str]) -> tuple[Plan, dict[str, str]]:
    """Decide on the proxy and return its plan and the agent's environment; warnings go to stderr.

    Raises ValueError for a setting that cannot be used, StartError for a port that cannot.
    """
    given = mitm.Arguments(options.proxy_arguments)
    port, shared = _choose_port(options, str(settings.root))
    allowed = preferences.provider_hosts(settings)
    confdir = Path(given.last("confdir", str(checkout.CERTIFICATES)))
    authority = certificate.Authority(confdir)
    if confdir == checkout.CERTIFICATES:
        certificate.ensure(confdir, allowed, now=datetime.datetime.now(datetime.UTC))
    if options.no_ca:
        modes = ["--mode", f"reverse:{environment.reverse_upstream(environ)}"]
        if environment.chain(environ, own_port=port):
            _say("HTTPS_PROXY is set, and --no-ca reaches the provider without it")
        child = environment.through_base_url(environ, port=port)
    else:
        modes = _upstream_mode(given, environ, port)
        for line in environment.bypasses(environ, allowed):
            _say(line)
        child = environment.through_proxy(environ, port=port, trust=trust.variables(authority, environ))
    trust.write_bundles(authority, environ)
    arguments = mitm.arguments(
        mitm.with_port((*modes, *options.proxy_arguments), port),
        script=checkout.addon_script(),
        confdir=confdir,
        roots=authority.roots,
        allowed=allowed,
    )
    Layout(settings.root).prepare()
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
    return plan, child


def _upstream_mode(given: mitm.Arguments, environ: Mapping[str, str], port: int) -> list[str]:
    if given.values("mode"):
        return []
    link = environment.chain(environ, own_port=port)
    if link is None:
        return []
    if link.warning:
        _say(link.warning)
    return ["--mode", link.mode] if link.mode else []


def _choose_port(options: Options, root: str) -> tuple[int, bool]:
    """Return the port and whether a proxy already there may be used.

    Without --port a port in foreign hands is no reason to fail: the agent gets a proxy of its own elsewhere.
    """
    if options.port is None and (options.own_proxy or options.no_ca):
        return probe.free_port(mitm.LOOPBACK), False
    port = options.port or mitm.PORT
    answer = probe.health(mitm.LOOPBACK, port, reverse=options.no_ca)
    if answer is None and probe.is_free(mitm.LOOPBACK, port):
        return port, not options.own_proxy
    holder = foreign(answer, version=version.code_hash(), root=root) if answer else "another program"
    if holder is None and not options.own_proxy:
        return port, True
    holder = holder or "another proxy of this code"
    if options.port is not None:
        raise StartError(f"port {port} is taken by {holder}: choose another with --port, or use --own-proxy")
    _say(f"port {port} is taken by {holder}: this agent gets a proxy of its own")
    return probe.free_port(mitm.LOOPBACK), False


def supervise(command: Sequence[str], environ: Mapping[str, str], plan: Plan, *, tick: float = _TICK_S) -> int:
    """Bring the proxy up, run the agent, keep the proxy up, and return the agent's exit code.

    `tick` in seconds. Must run in the main thread: it handles signals.
    """
    state = _State()
    supervisor = Supervisor(plan, report=_say, wanted=state.wanted)
    with _signals(state) as wait:
        try:
            supervisor.begin()
            if state.caught is None:
                state.agent = subprocess.Popen(list(command), env=dict(environ))
            while state.agent is not None and state.agent.poll() is None:
                wait(tick)
                supervisor.tick()
        except StartError as failure:
            _say(str(failure))
            return 1
        except OSError as error:
            _say(f"{command[0]} cannot be run: {error.strerror}")
            return 126
        finally:
            supervisor.stop()
    if state.agent is None:
        return 128 + (state.caught or 0)
    code = state.agent.returncode
    return code if code >= 0 else 128 - code


class _State:
    """What the signal handlers share with the loop."""

    def __init__(self) -> None:
        self.agent: subprocess.Popen[bytes] | None = None
        self.caught: int | None = None
        """The signal that came before there was an agent to pass it to."""

    def wanted(self) -> bool:
        return self.caught is None and (self.agent is None or self.agent.poll() is None)

    def handle(self, number: int, _frame: FrameType | None) -> None:
        if self.agent is None:
            self.caught = number
        elif not (number in _FROM_KEYBOARD and _in_foreground()):
            self.agent.send_signal(number)


def _in_foreground() -> bool:
    """Say whether the terminal has sent its own signal to the agent too: it is in our process group."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def _signals(state: _State) -> Iterator[Callable[[float], None]]:
    """Handle signals for the time of the block; yields a function that waits for one, at most so many seconds."""
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    before = {number: signal.signal(number, state.handle) for number in _FORWARDED}
    before[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda *_: None)
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)

    def wait(seconds: float) -> None:
        reader.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            reader.recv(4096)

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        reader.close()
        writer.close()


def _say(line: str) -> None:
    print(f"openmem-context: {line}", file=sys.stderr, flush=True)
