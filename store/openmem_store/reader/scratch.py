"""Own the temporary folders in which a copy of a session is read: private, and gone also after a crash."""

import contextlib
import os
import shutil
import stat
import tempfile
from pathlib import Path

_PREFIX = "openmem-read-"

LEFT_SECONDS = 3600.0
"""No answer takes as long: an older folder was left by a process that was killed."""


def folder() -> tempfile.TemporaryDirectory[str]:
    """Make a folder of mode 700, which goes when it is left."""
    return tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)


def clear(*, now: float) -> None:
    """Remove the folders that killed processes of this user left. `now`: seconds since the epoch.

    They hold whole conversations, and nothing else would ever delete them.
    """
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            found = path.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and now - found.st_mtime > LEFT_SECONDS:
                shutil.rmtree(path, ignore_errors=True)
