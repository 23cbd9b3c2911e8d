"""Own the proxy of one launcher: find one or start it, and keep one answering on the port until told to stop.

Knows nothing of the agent. Everything happens in the caller's thread: `begin` once, then `tick` once a second
and whenever a child of this process ended, `stop` at the end.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from openmem_addon.commands import probe

_START_LIMIT_S = 20.0  # a start takes about a second; a machine under load has needed seven
_ASK_EVERY_S = 0.05
_ATTEMPTS = 3
_PAUSE_S = 0.2  # after a failed start; three of them stay well under the three seconds of a restart
_TOO_SHORT_S = 3.0  # a proxy that dies sooner than this after its start counts as one that failed to start
_STOP_LIMIT_S = 5.0
_LOG_BYTES = 1 << 20


class StartError(Exception):
    """No proxy could be brought up; the text says why and what to do."""


class Plan(msgspec.Struct, frozen=True):
    """The proxy this launcher may start, and how to recognise one already there."""

    command: tuple[str, ...]
    host: str
    port: int
    version: str
    """Code hash of this checkout: a proxy of other code is not used."""
    root: str
    """Where this launcher's settings store: a proxy that stores elsewhere is not used."""
    log: Path
    """Where the started proxy writes; mode 600, begun anew past 1 MB."""
    reverse: bool = False
    shared: bool = True
    """Whether a proxy of the same code that somebody else started is used."""
    environ: dict[str, str] | None = None
    """The proxy's environment; None for this process's own."""


class Supervisor:
    def __init__(
        self,
        plan: Plan,
        *,
        report: Callable[[str], None],
        wanted: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`report` takes one line for the user; `wanted` turns false when the agent is gone, which ends a start."""
        self._plan = plan
        self._report = report
        self._wanted = wanted
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._short_lives = 0
        self._stopped = False

    @property
    def port(self) -> int:
        return self._plan.port

    @property
    def pid(self) -> int | None:
        """Process id of the proxy this supervisor started, None while it uses another's or has none."""
        return self._child.pid if self._child else None

    def begin(self) -> None:
        """Use the proxy on the port or start one. Raises StartError, with nothing left running."""
        if self._adopt():
            return
        if not probe.is_free(self._plan.host, self._plan.port):
            raise StartError(
                f"port {self._plan.port} is taken by another program: choose one with --port, or use --own-proxy"
            )
        self._bring_up()

    def tick(self) -> None:
        """Notice a proxy that ended and bring another up. Reports once, and rests, when that cannot be done."""
        if self._stopped:
            return
        if self._child is not None and self._child.poll() is not None:
            short = self._clock() - self._started_at < _TOO_SHORT_S
            self._short_lives = self._short_lives + 1 if short else 0
            self._child = None
            self._again()
        elif self._child is None and probe.is_free(self._plan.host, self._plan.port):
            self._again()

    def stop(self) -> None:
        """End the proxy this supervisor started: SIGTERM, which lets running streams finish. Idempotent."""
        self._stopped = True
        child, self._child = self._child, None
        if child is None:
            return
        child.send_signal(signal.SIGTERM)
        try:
            child.wait(_STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._report(f"the proxy (process {child.pid}) ends when the streams of other agents have ended")

    def _again(self) -> None:
        try:
            if self._short_lives >= _ATTEMPTS:
                raise StartError(f"the proxy ended {_ATTEMPTS} times right after its start; {self._log_end()}")
            self._bring_up()
        except StartError as failure:
            self._stopped = True
            self._report(f"{failure}; the agent has no connection to its provider until it is started again")

    def _bring_up(self) -> None:
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(_PAUSE_S)
            if not self._wanted():
                return
            if self._start() or self._adopt():
                return
        raise StartError(f"the proxy failed to start {_ATTEMPTS} times in a row; {self._log_end()}")

    def _start(self) -> bool:
        """Start the proxy and wait until it answers. False when it ended, or stayed silent and was ended."""
        with _open_log(self._plan.log) as log:
            # A session of its own: Ctrl-C in the terminal is for the agent. The pipe tells it that we ended.
            child = subprocess.Popen(
                self._plan.command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=self._plan.environ,
                start_new_session=True,
            )
        deadline = self._clock() + _START_LIMIT_S
        while child.poll() is None and self._clock() < deadline and self._wanted():
            answer = self._ask(timeout=1.0)
            if answer is not None and answer.pid == child.pid:
                self._child, self._started_at = child, self._clock()
                return True
            time.sleep(_ASK_EVERY_S)
        if child.poll() is None:
            child.kill()
        child.wait()
        return False

    def _adopt(self) -> bool:
        """Use a proxy that answers with this code, if the plan allows it."""
        if not self._plan.shared:
            return False
        answer = self._ask(timeout=2.0)
        if answer is None:
            return False
        if stranger := foreign(answer, version=self._plan.version, root=self._plan.root):
            raise StartError(f"port {self._plan.port} is taken by {stranger}: stop it, or use --own-proxy")
        return True

    def _ask(self, *, timeout: float) -> probe.Health | None:
        return probe.health(self._plan.host, self._plan.port, reverse=self._plan.reverse, timeout=timeout)

    def _log_end(self) -> str:
        """Return where the log is and its last line, which names what mitmdump disliked."""
        lines = self._plan.log.read_text(errors="replace").split("\n") if self._plan.log.is_file() else []
        last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing was written")
        return f"{self._plan.log} ends with: {last[:300]}"


def foreign(answer: probe.Health, *, version: str, root: str) -> str | None:
    """Return what is wrong with a proxy of ours for this launcher, None when it can be used."""
    if answer.version != version:
        return f"a proxy of other code (process {answer.pid})"
    if answer.root not in (None, root):
        return f"a proxy that stores in {answer.root} (process {answer.pid})"
    return None


def _open_log(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    too_long = path.is_file() and path.stat().st_size > _LOG_BYTES
    flags = os.O_WRONLY | os.O_CREAT | (os.O_TRUNC if too_long else os.O_APPEND)
    return os.fdopen(os.open(path, flags, 0o600), "ab")


def python_command(python: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """Return the command of a proxy that ends with its launcher; -P keeps the current folder off the path."""
    return (python, "-P", "-m", "openmem_addon.commands.child", *arguments)
