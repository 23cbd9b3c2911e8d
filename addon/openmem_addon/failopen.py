"""Own the one line a failure of ours leaves in the log, and nothing that a message or a key could be read from."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

Log = Callable[[str], None]


class Failure(msgspec.Struct, frozen=True):
    """Where something of ours failed, and as what."""

    location: str
    """`<file>:<line>`, the file's name alone."""
    error: str
    """Exception type."""

    def __str__(self) -> str:
        return f"openmem-context: fail-open {self.error} at {self.location}"


def failure(error: BaseException) -> Failure:
    """Return what the log may say of an exception: the innermost place in our own code, and its type."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "openmem_" in frame.filename] or frames
    where = f"{Path(ours[-1].filename).name}:{ours[-1].lineno}" if ours else "unknown:0"
    return Failure(where, type(error).__name__)


def to_stderr(line: str) -> None:
    """Write one line to standard error, which no verbosity of mitmproxy silences."""
    print(line, file=sys.stderr, flush=True)
