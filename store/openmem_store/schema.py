"""Own the statements of a session database, their versions, and the one way to open a file for each side."""

import os
from pathlib import Path

import apsw

VERSION = 3

SCHEMA: tuple[str, ...] = (
    """CREATE TABLE messages (seq INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, thread TEXT NOT NULL,
  role TEXT NOT NULL, kind TEXT NOT NULL, name TEXT, text TEXT NOT NULL, blob_id TEXT,
  in_context INTEGER NOT NULL DEFAULT 1, trimmed_at_seq INTEGER, trimmed_at TEXT, created_at TEXT NOT NULL)""",
    "CREATE INDEX messages_thread ON messages (thread, seq)",
    """CREATE TABLE lines (id INTEGER PRIMARY KEY, message_seq INTEGER NOT NULL REFERENCES messages (seq),
  line_no INTEGER NOT NULL, role TEXT NOT NULL, text TEXT NOT NULL, UNIQUE (message_seq, line_no))""",
    "CREATE VIRTUAL TABLE messages_fts USING fts5 (text, content='messages', content_rowid='seq')",
    "CREATE VIRTUAL TABLE lines_fts USING fts5 (text, content='lines', content_rowid='id')",
    """CREATE TRIGGER messages_fts_insert AFTER INSERT ON messages BEGIN
  INSERT INTO messages_fts (rowid, text) VALUES (new.seq, new.text); END""",
    """CREATE TRIGGER lines_fts_insert AFTER INSERT ON lines BEGIN
  INSERT INTO lines_fts (rowid, text) VALUES (new.id, new.text); END""",
    """CREATE TABLE vectors (message_seq INTEGER NOT NULL REFERENCES messages (seq), model TEXT NOT NULL,
  dim INTEGER NOT NULL, blob BLOB NOT NULL, PRIMARY KEY (message_seq, model))""",
)

MIGRATIONS: dict[int, tuple[str, ...]] = {
    2: (
        """CREATE TABLE events (id INTEGER PRIMARY KEY, at TEXT NOT NULL, kind TEXT NOT NULL, version TEXT NOT NULL,
  location TEXT, error TEXT, tokens_before INTEGER, tokens_after INTEGER, dropped INTEGER)""",
    ),
    3: tuple(
        f"ALTER TABLE events ADD COLUMN {column}"
        for column in (
            "model TEXT",
            "thread_root TEXT",
            "trimmed INTEGER",
            "input_tokens INTEGER",
            "cache_read_tokens INTEGER",
            "cache_creation_tokens INTEGER",
            "output_tokens INTEGER",
            "breakpoints INTEGER",
            "breakpoint_at TEXT",
        )
    ),
}
"""Statements that lead to a version, by that version; appended to, never edited."""

READABLE = range(1, VERSION + 1)

BUSY_MS = 1000
"""The contract's busy timeout, milliseconds."""

JOURNAL_LIMIT = 4 << 20
"""Bytes a `-wal` file keeps after a reset; without it one slow reader leaves 87 MB behind (measured)."""


class UnsupportedSchema(Exception):
    """The file was written by a newer version: it is left alone."""


class NothingStored(UnsupportedSchema):
    """The file has no tables yet: its writer was interrupted at its first request, by a full disk for one."""


def user_version(connection: apsw.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").get)  # type: ignore[arg-type]


def _refuse_newer(found: int) -> None:
    if found > VERSION:
        raise UnsupportedSchema(f"session database has version {found}, this program knows {VERSION}")


def migrate(connection: apsw.Connection) -> None:
    """Bring a database to `VERSION` in one `BEGIN IMMEDIATE` transaction.

    Raises UnsupportedSchema for a newer file, before anything is written.
    """
    found = user_version(connection)
    _refuse_newer(found)
    if found == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = user_version(connection)  # another writer may have migrated while this one waited
        _refuse_newer(found)
        statements = [] if found else list(SCHEMA)
        for version, added in MIGRATIONS.items():
            if found < version:
                statements += added
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # a full disk has rolled back by itself
            connection.execute("ROLLBACK")
        raise


def create(path: Path) -> None:
    """Make an empty file, mode 600, before SQLite would with the umask's; `-wal` and `-shm` take its mode."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        # Never opened here: closing any descriptor of a file drops this process's locks on it.
        if path.stat().st_mode & 0o077:
            path.chmod(0o600)


def _durable(connection: apsw.Connection) -> None:
    """WAL, so that readers never wait; FULL, so that an acknowledged commit survives a power loss.

    A trimmed message exists for the agent only here. FULL costs about 5 ms per transaction
    (measured on ext4), in a worker thread; NORMAL would keep every commit over a kill -9 only.
    """
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")


def _checkpointed_by_hand(connection: apsw.Connection) -> None:
    """Take checkpoints out of the commit: they made its 95th percentile ten times its median."""
    connection.wal_autocheckpoint(0)
    connection.execute(f"PRAGMA journal_size_limit = {JOURNAL_LIMIT}")


def open_writer(path: Path) -> apsw.Connection:
    """Open a session database for writing, created or migrated to `VERSION`.

    Raises UnsupportedSchema for a newer file and leaves its bytes alone; apsw.Error.
    """
    create(path)
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.set_busy_timeout(BUSY_MS)
        _refuse_newer(user_version(connection))
        _durable(connection)
        _checkpointed_by_hand(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        migrate(connection)
    except BaseException:
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.close()
        raise
    return connection


def read_only(path: Path, *, immutable: bool = False) -> str:
    """Return the URI that opens a file read-only; `immutable` as in `open_reader`."""
    return path.absolute().as_uri() + ("?immutable=1" if immutable else "?mode=ro")


def open_reader(path: Path, *, busy_ms: int = BUSY_MS, immutable: bool = False) -> apsw.Connection:
    """Open a session database read-only.

    `immutable` skips locks and the log: only for a file without one, in a directory that takes no
    `-shm`. Raises apsw.Error, or UnsupportedSchema for a version not readable; NothingStored is one.
    """
    connection = apsw.Connection(
        read_only(path, immutable=immutable), flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    )
    try:
        connection.set_busy_timeout(busy_ms)
        found = user_version(connection)
        if found not in READABLE:
            kind = UnsupportedSchema if found else NothingStored
            raise kind(f"session database has version {found}, this program reads 1 to {VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection
