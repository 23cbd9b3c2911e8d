"""Own the child's side: what it may use before it touches anything that a model wrote, and how it reports.

Two things can only be stopped by ending the process: a scalar SQL function that never yields to
SQLite's interrupt, and a regular expression that backtracks without end. So both run in a child.
"""

import contextlib
import os
import resource
import sys

MEMORY_BYTES = 512 << 20
"""Address space: Python, SQLite and the longest row fit several times."""

CPU_SECONDS = 4
"""Twice the parent's patience; it ends a child whose parent was killed."""

FILE_BYTES = 1 << 20
"""Not 0: SQLite must be able to make a `-shm` file."""

READY = b"ready"
"""A child's first line: the parent's clock starts."""

LIMITS = {
    resource.RLIMIT_AS: MEMORY_BYTES,
    resource.RLIMIT_CPU: CPU_SECONDS,
    resource.RLIMIT_FSIZE: FILE_BYTES,
    resource.RLIMIT_NPROC: 0,
    resource.RLIMIT_CORE: 0,
}


def confine() -> None:
    """Lower the limits of this process for good."""
    for limit, most in LIMITS.items():
        # A system may refuse one of them (macOS has no address-space limit); the parent's clock still holds.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(limit, (most, most))


def ready() -> None:
    """Tell the parent that the work begins now."""
    report(READY)


def report(line: bytes) -> None:
    """Report one line to the parent."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


def leave() -> None:
    """End this process at once: taking a Python apart object by object costs 10 ms that the parent waits."""
    os._exit(0)
