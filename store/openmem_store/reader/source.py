"""Own how a session file is opened without the right to change it.

Imports little: a child that runs one statement is started for each.
"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import apsw
import msgspec

from openmem_store import schema


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
        import shutil

        from openmem_store.reader import scratch

        with scratch.folder() as folder:
            copy = Path(folder) / "session.db"
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


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
