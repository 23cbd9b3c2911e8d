"""Own which session files a call reads, and how one is opened without the right to change it."""

import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from openmem_store import registration, schema
from openmem_store.layout import Layout
from openmem_store.reader.answers import RefusedError

MOST_SESSIONS = 10
"""Sessions searched when none is named: enough for a day's work in one repository, few enough to answer at once."""


class Choice(msgspec.Struct, frozen=True):
    """The sessions one call reads."""

    sids: tuple[str, ...]
    """Newest first."""
    scope: str
    """Why these, in words for the answer."""


def choose(layout: Layout, sid: str | None, *, cwd: Path) -> Choice:
    """Return the one named session, else recent sessions of this workspace, else recent sessions of any.

    Raises RefusedError for a session that has no database, or a store without one.
    """
    if sid is not None:
        if not layout.database(sid).is_file():
            raise RefusedError(
                f"session_id {sid!r} has no stored messages: use the id from the pointer in your context, "
                "or leave session_id out to search the recent sessions of this workspace"
            )
        return Choice((sid,), "the session you named")
    recent = stored(layout)
    if not recent:
        raise RefusedError("nothing is stored yet: no request of an agent has passed the proxy on this machine")
    root = workspace(cwd)
    here = [sid for sid in recent if _registered_under(layout, sid, root)]
    if here:
        return Choice(tuple(here[:MOST_SESSIONS]), f"the {len(here[:MOST_SESSIONS])} newest sessions of this workspace")
    newest = tuple(recent[:MOST_SESSIONS])
    return Choice(newest, f"no session is registered for this workspace, so the {len(newest)} newest of all")


def stored(layout: Layout) -> tuple[str, ...]:
    """Return the ids of all stored sessions, the one written last first."""
    times = written(layout)
    return tuple(sorted(times, key=lambda sid: (-times[sid], sid)))


def written(layout: Layout) -> dict[str, float]:
    """Return when each stored session was last written, in seconds since the epoch."""
    found: dict[str, float] = {}
    for path in layout.sessions.glob("*.db"):
        own = _changed(path)
        if own is not None:
            # A commit goes to the -wal first; the database file itself may stay old for hours.
            log = _changed(path.with_name(path.name + "-wal"))
            found[path.name.removesuffix(".db")] = own if log is None else max(own, log)
    return found


def workspace(directory: Path) -> Path:
    """Return the git root above `directory`, or the directory itself outside a repository."""
    resolved = directory.resolve()
    for parent in (resolved, *resolved.parents):
        if (parent / ".git").exists():
            return parent
    return resolved


class Source(msgspec.Struct, frozen=True):
    """A session file and how it can be read."""

    path: str
    immutable: bool
    """Told to SQLite when the file is complete and its directory takes no `-shm`."""


@contextmanager
def readable(path: Path) -> Generator[Source]:
    """Find how a session database can be read, also where its directory cannot be written.

    A database in WAL mode needs its `-shm` file, which a reader without write permission cannot
    make. With an empty log the file itself is complete, and SQLite may be told that it will not
    change; with a log it is not, so a private copy of both is read instead, and removed after.

    Raises apsw.Error, or schema.UnsupportedSchema for a version that this program does not read.
    """
    try:
        schema.open_reader(path).close()
    except (apsw.ReadOnlyError, apsw.CantOpenError):
        log = path.with_name(path.name + "-wal")
        if not path.is_file():
            raise
        if _size(log) == 0:
            yield Source(str(path), immutable=True)
            return
        with tempfile.TemporaryDirectory(prefix="openmem-read-") as scratch:
            copy = Path(scratch) / "session.db"
            shutil.copyfile(path, copy)
            shutil.copyfile(log, copy.with_name(copy.name + "-wal"))
            yield Source(str(copy), immutable=False)
        return
    yield Source(str(path), immutable=False)


def connect(source: Source) -> apsw.Connection:
    """Open a source. Raises as `readable` does."""
    return schema.open_reader(Path(source.path), immutable=source.immutable)


@contextmanager
def opened(path: Path) -> Generator[apsw.Connection]:
    """Open a session database read-only and close it after. Raises as `readable` does."""
    try:
        connection = schema.open_reader(path)
    except (apsw.ReadOnlyError, apsw.CantOpenError):
        with readable(path) as source:
            connection = connect(source)
            try:
                yield connection
            finally:
                connection.close()
        return
    try:
        yield connection
    finally:
        connection.close()


def _registered_under(layout: Layout, sid: str, root: Path) -> bool:
    registered = registration.read(layout, sid)
    directory = registered.cwd if registered else None
    return bool(directory) and Path(str(directory)).resolve().is_relative_to(root)


def _changed(path: Path) -> float | None:
    """Return when a file was last written; None without one, and for an empty one, which a mere look leaves behind."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime if found.st_size else None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
