"""Own the advisory lock that makes one process the writer of a session.

Every session is one byte of one empty file. POSIX record locks belong to the process and all of
them go when it closes any descriptor of the file: so the file is opened once per process, and what
this process holds is counted here, since the kernel would grant it again.
"""

import errno
import fcntl
import hashlib
import os
import threading
from pathlib import Path


class WriterBusy(Exception):
    """Another writer, of this process or another, holds the session until it ends."""


class _File:
    """The lock file as this process has it open."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self.identity = _identity(os.fstat(self.descriptor))
        self.held: set[int] = set()


_guard = threading.Lock()
_files: dict[Path, _File] = {}


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _file(path: Path) -> _File:
    """Return the file now at `path`. One that was deleted stays open for those who hold it."""
    file = _files.get(path)
    if file is not None:
        try:
            if _identity(path.stat()) == file.identity:
                return file
        except FileNotFoundError:
            pass
    file = _files[path] = _File(path)
    return file


class Lock:
    """The right to write one session, from construction to `release`."""

    def __init__(self, path: Path, sid: str) -> None:
        """Take the lock of `sid` in the lock file `path`. Raises WriterBusy at once, never waits."""
        self._path = path
        # 62 bits: an offset is signed, and offset + 1 must not overflow either.
        self._offset = int.from_bytes(hashlib.sha256(sid.encode()).digest()[:8]) >> 2
        with _guard:
            self._file = _file(path)
            if self._offset in self._file.held:
                raise WriterBusy(f"session {sid} already has a writer in this process")
            try:
                fcntl.lockf(self._file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._offset)
            except OSError as error:
                self._close_unused()
                if error.errno in (errno.EAGAIN, errno.EACCES):  # POSIX allows both
                    raise WriterBusy(f"session {sid} is written by another process") from error
                raise
            self._file.held.add(self._offset)
            self._held = True

    def valid(self) -> bool:
        """Tell whether the lock keeps others out: not when it was released or its file was deleted."""
        try:
            return self._held and _identity(self._path.stat()) == self._file.identity
        except FileNotFoundError:
            return False

    def release(self) -> None:
        """Give the session free. A second call does nothing."""
        with _guard:
            if not self._held:
                return
            self._held = False
            self._file.held.discard(self._offset)
            fcntl.lockf(self._file.descriptor, fcntl.LOCK_UN, 1, self._offset)
            self._close_unused()

    def _close_unused(self) -> None:
        if self._file.held:
            return
        os.close(self._file.descriptor)
        if _files.get(self._path) is self._file:
            del _files[self._path]
