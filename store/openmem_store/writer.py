"""Own the writing of one session database: rows, flags and events, each call one transaction.

Reading is the reader's. Errors of SQLite reach the caller; nothing is lost by one, because the
agent sends its whole history again with the next request and `sync` stores what is missing.
"""

import json
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import get_args

import apsw
import msgspec

from openmem_store import delta, quarantine, salvage, schema
from openmem_store.events import Event
from openmem_store.layout import Layout, scratch_for
from openmem_store.lock import Lock, WriterBusy
from openmem_store.rows import Row, storable

__all__ = ["SessionWriter", "WriterBusy"]

_CHECKPOINT_PAGES = 1000
"""4 MB of WAL, SQLite's own default; smaller makes more fsyncs, larger makes readers slower."""

# One statement per table and request: a row-by-row insert makes FTS5 flush a segment per row
# (240 lines: 240 segments against 1) and costs nearly twice the CPU.
_INSERT_MESSAGES = """INSERT INTO messages (seq, fingerprint, thread, role, kind, name, text, blob_id,
  in_context, trimmed_at_seq, trimmed_at, created_at)
  SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7,
  value->>8, value->>9, value->>10, value->>11 FROM json_each(?)"""
_MOVE = """UPDATE messages SET in_context = ?, trimmed_at_seq = ?, trimmed_at = ?
  WHERE seq IN (SELECT value FROM json_each(?))"""
_NAME_BLOBS = """UPDATE messages SET blob_id = named.value->>1 FROM json_each(?) AS named
  WHERE seq = named.value->>0"""
_RETIRE = """UPDATE messages SET in_context = 0, trimmed_at_seq = NULL, trimmed_at = ?
  WHERE thread = ? AND in_context = 1"""
_VECTOR = """INSERT OR REPLACE INTO vectors (message_seq, model, dim, blob)
  SELECT seq, ?, ?, ? FROM messages WHERE fingerprint = ?"""
_INDEX = "SELECT fingerprint, seq, in_context, blob_id IS NOT NULL FROM messages ORDER BY seq"
_REBUILD = (
    "INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')",
    "INSERT INTO lines_fts (lines_fts) VALUES ('rebuild')",
)

_DAMAGE = (apsw.CorruptError, apsw.NotADBError)

_UNREADABLE_INDEX = "fts5"
"""In the message of an SQLError that is damage too: the index has lost what says how it is to be read."""


def _event_statement(kind: type[Event]) -> str:
    """The fields of an event are its columns."""
    columns = ("at", "kind", "version", *kind.__struct_fields__)
    return f"INSERT INTO events ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"


_EVENTS: dict[type[Event], str] = {kind: _event_statement(kind) for kind in get_args(Event)}


class SessionWriter:
    """The one writer of a session's database, used by one thread at a time.

    The file is opened at the first call that needs it, and again whenever it was deleted or
    replaced. One that is damaged is set aside and a new one begun.
    """

    def __init__(self, path: Path, *, version: str, log: Callable[[str], None] | None = None) -> None:
        """Take the session's writer lock; `version` goes into each event as its writer.

        `path` is `sessions/<sid>.db` of a store, `log` gets one line when a damaged file is set
        aside or its search index rebuilt. Raises WriterBusy when another process writes this session.
        """
        self._path = path
        self._version = version
        self._log = log
        self._layout = Layout(path.parent.parent)
        self._layout.prepare()
        self._mend = self._layout.mend(path.name.removesuffix(".db"))
        self._lock = self._acquire()
        self._connection: apsw.Connection | None = None
        self._identity: tuple[object, object] = (None, None)
        self._index: delta.Index | None = None
        self._stored: delta.Stored | None = None
        self._data_version = -1
        self._wal_pages = 0

    def sync(
        self,
        rows: Sequence[Row],
        *,
        dropped: Collection[int],
        cut: int | None,
        owned: int,
        blobs: Mapping[int, str],
        at: str,
    ) -> None:
        """Store what the database lacks of `rows` and bring their flags to what this request sends.

        `dropped`: indexes into `rows` that do not go to the model. `cut`: index of the cut turn's
        first row, which the dropped rows name in `trimmed_at_seq`; None leaves it NULL. `owned`:
        rows before it belong to another lane and keep their flags. `blobs`: index → blob id.
        `at`: now, ISO 8601 UTC. What changes nothing writes nothing. Raises apsw.Error.
        """

        def compare(index: delta.Index) -> delta.Delta:
            start = self._stored.unchanged(index, rows, dropped, owned, blobs) if self._stored else 0
            return delta.compare(index, rows, dropped=dropped, cut=cut, owned=owned, blobs=blobs, start=start)

        def work(connection: apsw.Connection) -> None:
            index = self._current(connection)
            change = compare(index)
            if change:
                with self._transaction(connection):
                    now = self._current(connection)  # another connection may have committed before BEGIN
                    if now is not index:
                        index, change = now, compare(now)
                    _write(connection, index, change, at)
                delta.apply(index, change)
            self._stored = delta.stored(index, rows, dropped, owned, blobs)

        self._attempt(work)

    def leading_known(self, rows: Sequence[Row]) -> int:
        """Return how many of the first `rows` the database has already. Creates no file."""
        if self._connection is None and not self._path.exists():
            return 0

        def work(connection: apsw.Connection) -> int:
            index = self._current(connection)
            return next((place for place, row in enumerate(rows) if row.fingerprint not in index), len(rows))

        return self._attempt(work)

    def retire(self, thread: str, *, at: str) -> None:
        """Take every row of `thread` out of context: its client compacted it, so there is no cut turn."""

        def work(connection: apsw.Connection) -> None:
            with self._transaction(connection):
                connection.execute(_RETIRE, (at, thread))
            if connection.changes():
                self._index = None

        self._attempt(work)

    def record(self, event: Event, *, at: str) -> None:
        """Append one event."""
        kind = str(event.__struct_config__.tag)
        fields = (storable(v) if isinstance(v, str) else v for v in msgspec.structs.astuple(event))
        values = (at, kind, self._version, *fields)

        def work(connection: apsw.Connection) -> None:
            with self._transaction(connection):
                connection.execute(_EVENTS[type(event)], values)

        self._attempt(work)

    def store_vectors(self, model: str, vectors: Mapping[str, bytes]) -> None:
        """Store vectors of `model` by their rows' fingerprints; an empty one marks a row that is given up.

        A row that is gone meanwhile is passed over, and no file is created for one: it was deleted.
        """
        if not self._path.exists():
            return
        values = [(model, len(vector) // 4, vector, fingerprint) for fingerprint, vector in vectors.items()]

        def work(connection: apsw.Connection) -> None:
            with self._transaction(connection):
                connection.executemany(_VECTOR, values)

        self._attempt(work)

    def checkpoint(self) -> None:
        """Move a long WAL into the database, as far as readers allow; never waits for one.

        For the time after a caller has its answer: this is the slow part of writing.
        """
        if self._connection is None or self._wal_pages < _CHECKPOINT_PAGES:
            return
        total, moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        self._wal_pages = total - moved

    def close(self) -> None:
        """Close the file and give the session free. The writer is of no use afterwards."""
        try:
            self._disconnect()
        finally:
            self._lock.release()

    def _acquire(self) -> Lock:
        return Lock(self._layout.writers_lock, self._path.name.removesuffix(".db"))

    def _attempt[T](self, work: Callable[[apsw.Connection], T]) -> T:
        """Run `work`, repairing in rising order of cost while SQLite calls the file damaged.

        A write may pass over damaged pages that a search needs, so a reader can ask for the repair too.
        """
        if self._mend.exists():
            if self._path.is_file():
                self._salvage()
            self._mend.unlink(missing_ok=True)
        for repair in (self._disconnect, self._rebuild_search, self._salvage, self._set_aside):
            try:
                return self._run(work)
            except (*_DAMAGE, apsw.SQLError) as error:
                if not _is_damage(error):
                    raise
                repair()
        return self._run(work)

    def _run[T](self, work: Callable[[apsw.Connection], T]) -> T:
        try:
            return work(self._database())
        except (apsw.BusyError, *_DAMAGE):
            raise
        except apsw.Error:
            self._disconnect()  # a full disk or a lost directory may leave it unusable: begin anew next time
            raise

    def _database(self) -> apsw.Connection:
        files = self._files()
        if self._connection is not None and files == self._identity:
            return self._connection
        replaced = self._connection is not None and files[0] is not None and files[0] != self._identity[0]
        self._disconnect()
        if replaced and files[1] == self._identity[1]:
            self._remove_log()
        self._layout.prepare()
        if not self._lock.valid():  # the whole store was deleted under us, the lock file with it
            self._lock.release()
            self._lock = self._acquire()
        if self._path.is_dir():
            self._set_aside()
        self._connection = schema.open_writer(self._path)
        self._connection.set_wal_hook(self._committed)
        self._identity = self._files()
        return self._connection

    def _files(self) -> tuple[object, object]:
        """Return what names the open files: a commit into a deleted database or WAL would vanish."""
        return _inode(self._path), _inode(self._path.with_name(self._path.name + "-wal"))

    def _remove_log(self) -> None:
        """Remove the log of a database that another took the place of: SQLite would replay it into that one."""
        for tail in ("-wal", "-shm"):
            self._path.with_name(self._path.name + tail).unlink(missing_ok=True)

    def _disconnect(self) -> None:
        connection, self._connection, self._index = self._connection, None, None
        if connection is not None:
            connection.close()

    def _rebuild_search(self) -> None:
        """Rebuild the search indexes from the tables: damage in them alone costs no message."""
        try:
            connection = self._database()
            with self._transaction(connection):
                for statement in _REBUILD:
                    connection.execute(statement)
        except apsw.Error:
            self._disconnect()  # the damage is elsewhere; the next repair is for that
            return
        self._say("openmem-context: search index damaged; it is rebuilt")

    def _salvage(self) -> None:
        """Take the rows over into a new file: damaged pages of an index cannot be rebuilt in their place."""
        self._disconnect()
        scratch = scratch_for(self._path)
        try:
            salvage.copy(self._path, scratch)
            aside = quarantine.set_aside(self._path)
            scratch.rename(self._path)
        except (*_DAMAGE, apsw.SQLError, schema.UnsupportedSchema):
            return  # a message cannot be read; the next repair is for that
        finally:
            scratch.unlink(missing_ok=True)
        self._say(
            f"openmem-context: index damaged, database set aside as {aside.name}; all of its messages are in a new one"
        )

    def _set_aside(self) -> None:
        self._disconnect()
        target = quarantine.set_aside(self._path)
        self._say(f"openmem-context: database damaged, set aside as {target.name}; a new one is begun")

    def _say(self, line: str) -> None:
        if self._log is not None:
            self._log(line)

    def _current(self, connection: apsw.Connection) -> delta.Index:
        """Return the index, read again when another connection has committed since."""
        version = connection.execute("PRAGMA data_version").get
        if self._index is None or version != self._data_version:
            self._index = {
                fingerprint: delta.Known(seq, bool(in_context), bool(blob))
                for fingerprint, seq, in_context, blob in connection.execute(_INDEX)
            }
            self._data_version = version
        return self._index

    @contextmanager
    def _transaction(self, connection: apsw.Connection) -> Generator[None]:
        connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:  # a full disk has rolled back by itself
                connection.execute("ROLLBACK")
            raise

    def _committed(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        self._wal_pages = pages
        return apsw.SQLITE_OK


def _is_damage(error: apsw.Error) -> bool:
    return isinstance(error, _DAMAGE) or _UNREADABLE_INDEX in str(error)


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _json(values: Sequence[Sequence[object]]) -> str:
    return storable(json.dumps(values, ensure_ascii=False, separators=(",", ":")))


def _write(connection: apsw.Connection, index: delta.Index, change: delta.Delta, at: str) -> None:
    """Write `change` inside the caller's transaction."""
    if change.added:
        messages = [_message(fresh, change.cut, at) for fresh in change.added]
        connection.execute(_INSERT_MESSAGES, (_json(messages),))
        lines = [
            (fresh.seq, number, fresh.row.role, line)
            for fresh in change.added
            for number, line in enumerate(fresh.row.text.split("\n"), 1)
        ]
        connection.execute(salvage.LINES_FROM_MESSAGES, (_json(lines),))
    for keys, flags in ((change.left, (0, change.cut, at)), (change.returned, (1, None, None))):
        if keys:
            connection.execute(_MOVE, (*flags, json.dumps([index[key].seq for key in keys])))
    if change.blobs:
        named = [(index[key].seq, blob_id) for key, blob_id in change.blobs]
        connection.execute(_NAME_BLOBS, (_json(named),))


def _message(fresh: delta.Fresh, cut: int | None, at: str) -> tuple[object, ...]:
    row = fresh.row
    trimmed = (None, None) if fresh.in_context else (cut, at)
    return (
        fresh.seq,
        row.fingerprint,
        row.thread,
        row.role,
        row.kind,
        row.name,
        row.text,
        fresh.blob_id,
        int(fresh.in_context),
        *trimmed,
        at,
    )
