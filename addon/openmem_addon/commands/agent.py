"""Own the agent's process: it outlives its proxy, gets our signals, and its exit code is ours.

What there is to say goes to stderr, one line each: stdout belongs to the agent.
"""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FrameType

from openmem_addon.commands.supervisor import Plan, StartError, Supervisor

_FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_FROM_KEYBOARD = (signal.SIGINT, signal.SIGQUIT)
_TICK_S = 1.0  # how soon a proxy that another launcher ended is missed; our own child wakes us at once


def run(command: Sequence[str], environ: Mapping[str, str], plan: Plan, *, tick: float = _TICK_S) -> int:
    """Bring the proxy up, run the agent, keep the proxy up, and return the agent's exit code.

    `tick` in seconds. Must run in the main thread: it handles signals.
    """
    state = _State()
    supervisor = Supervisor(plan, report=say, wanted=state.wanted)
    with _signals(state) as wait:
        try:
            supervisor.begin()
            if state.caught is None:
                state.agent = _started(command, environ)
            while state.agent is not None and state.agent.poll() is None:
                wait(tick)
                supervisor.tick()
        except StartError as failure:
            say(str(failure))
            return 1
        except _CannotRunError as failure:
            say(str(failure))
            return 126
        finally:
            supervisor.stop()
    if state.agent is None:
        return 128 + (state.caught or 0)
    code = state.agent.returncode
    return code if code >= 0 else 128 - code


class _CannotRunError(Exception):
    """The agent's program is there and cannot be run."""


def _started(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(list(command), env=dict(environ))
    except OSError as error:
        raise _CannotRunError(f"{command[0]} cannot be run: {error.strerror}") from error


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


def say(line: str) -> None:
    """Tell the user one line."""
    print(f"openmem-context: {line}", file=sys.stderr, flush=True)
