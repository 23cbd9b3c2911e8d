"""Own the session files that a process keeps open between calls, and how it is told that one is still the same.

To open a file and to prepare its indexes takes longer than to find a rare word in it. A kept connection
holds no transaction, so it keeps no writer and no checkpoint waiting; what others commit SQLite notices by
itself. It is used again only while its path leads to the file that it has open: the same database, its
bytes untouched but by way of the log, and the same log and index of the log. A checkpoint changes the
database, so the file is opened anew after one, once in some megabytes written.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import apsw
import msgspec

from openmem_store import schema
from openmem_store.reader import source
from openmem_store.reader.databases import MOST_SESSIONS
from openmem_store.reader.idle import Idle
from openmem_store.reader.known import Known

MOST = MOST_SESSIONS
"""Files kept, at most 3 MB of SQLite's memory each: what one search reads that names none."""

MOST_ROWS = 200_000
"""Of all kept sessions together, at most 0.25 KB each."""

IDLE_SECONDS = 60.0
"""After this all are closed: a deleted file takes its place on the disk until then, or until the next search."""

Opened = Callable[[Path], AbstractContextManager[Known]]
"""How a session file is opened for one caller."""

_Stat = tuple[int, ...] | None


class _Files(msgspec.Struct, frozen=True):
    """What names the files of a session. An inode that is held open is not given to another file."""

    database: _Stat
    log: _Stat
    index: _Stat


class _Kept(msgspec.Struct):
    """An open file."""

    known: Known
    files: _Files
    checked: int | None = None
    """The state of its content in which its schema's version was looked at."""

    def current(self) -> bool:
        """Take notice of what was stored since; False where the file is to be opened anew, which says what is wrong."""
        try:
            self.known.refresh()
            if self.known.state != self.checked:
                if schema.user_version(self.known.connection) not in schema.READABLE:
                    return False
                self.checked = self.known.state
        except apsw.Error:
            return False
        return True


@contextmanager
def once(path: Path) -> Generator[Known]:
    """Open a session database read-only for one caller and close it after. Raises as `source.readable` does."""
    with source.opened(path) as connection:
        yield Known(connection)


class Sessions:
    """The session files this process keeps open, those used last."""

    def __init__(self, folder: Path, *, idle_seconds: float = IDLE_SECONDS) -> None:
        """`folder`: the files in it are kept; any other is read once."""
        self._folder = folder
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        self.idle = Idle(idle_seconds, self.close)

    @contextmanager
    def opened(self, path: Path) -> Generator[Known]:
        """Open a session database as `once` does, or go on with it where it is open."""
        kept = (self._take(path) or _open(path)) if path.parent == self._folder else None
        if kept is None:
            with once(path) as known:
                yield known
            return
        try:
            yield kept.known
        finally:
            self._give_back(path, kept)

    def close(self) -> None:
        """Close what is kept. It may be used after."""
        with self._lock:
            kept, self._kept = self._kept, OrderedDict()
        for each in kept.values():
            each.known.connection.close()

    def _take(self, path: Path) -> _Kept | None:
        """Return the file of a path where it is kept and still the same; nobody else has it then."""
        with self._lock:
            kept = self._kept.pop(path, None)
        if kept is None:
            return None
        if kept.files == _files(path) and kept.current():
            return kept
        kept.known.connection.close()
        return None

    def _give_back(self, path: Path, kept: _Kept) -> None:
        connection = kept.known.connection
        surplus = [connection]
        # A statement that was not read to its end would keep a snapshot.
        if kept.files.database is not None and connection.txn_state("main") == apsw.SQLITE_TXN_NONE:
            with self._lock:
                surplus = [self._kept.pop(path).known.connection] if path in self._kept else []
                self._kept[path] = kept
                while len(self._kept) > MOST or self._rows() > MOST_ROWS:
                    surplus.append(self._kept.popitem(last=False)[1].known.connection)
                surplus += [self._kept.pop(each).known.connection for each in self._gone()]
            self.idle.used()
        for each in surplus:
            each.close()

    def _gone(self) -> list[Path]:
        """Return the paths that lead elsewhere now: a session that was deleted is not to live on in here."""
        return [path for path, kept in self._kept.items() if _inode(str(path)) != (kept.files.database or ())[:2]]

    def _rows(self) -> int:
        return sum(kept.known.count for kept in self._kept.values())


def _open(path: Path) -> _Kept | None:
    """Open a file to be kept; None for one that `source` can only read in a way of its own."""
    before = _files(path)
    try:
        connection = schema.open_reader(path)
    except (apsw.ReadOnlyError, apsw.CantOpenError):
        return None
    known = Known(connection)
    try:
        known.refresh()
    except BaseException:
        connection.close()
        raise
    after = _files(path)
    if before.database != after.database:  # replaced just now: which of the two was opened is not known
        after = _Files(None, None, None)
    return _Kept(known, after)


def _files(path: Path) -> _Files:
    database = _stat(str(path))
    found = (database.st_dev, database.st_ino, database.st_size, database.st_mtime_ns) if database else None
    return _Files(found, _inode(f"{path}-wal"), _inode(f"{path}-shm"))


def _inode(path: str) -> _Stat:
    found = _stat(path)
    return (found.st_dev, found.st_ino) if found else None


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116, half the time of Path's, three times a search
    except OSError:
        return None
