"""Own the statements of a session database, their versions, and the one way to open a file for each side."""

from pathlib import Path

import apsw

VERSION = 3

SCHEMA = (
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

MIGRATIONS = {
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


class UnsupportedSchema(Exception):
    """The file was written by a newer version: it is left alone."""


def user_version(connection: apsw.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").get)  # type: ignore[arg-type]


def migrate(connection: apsw.Connection) -> None:
    """Bring a database to `VERSION` in one `BEGIN IMMEDIATE` transaction.

    Raises UnsupportedSchema for a newer file, before anything is written.
    """
    if user_version(connection) == VERSION:
        return
    connection.execute("BEGIN IMMEDIATE")
    try:
        found = user_version(connection)
        if found > VERSION:
            raise UnsupportedSchema(f"session database has version {found}, this program knows {VERSION}")
        statements = [] if found else list(SCHEMA)
        for version, added in MIGRATIONS.items():
            if found < version:
                statements += added
        for statement in statements:
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def open_reader(path: Path, *, busy_ms: int = BUSY_MS) -> apsw.Connection:
    """Open a session database read-only. Raises apsw.Error, or UnsupportedSchema for a version not readable."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        connection.set_busy_timeout(busy_ms)
        found = user_version(connection)
        if found not in READABLE:
            raise UnsupportedSchema(f"session database has version {found}, this program reads 1 to {VERSION}")
    except BaseException:
        connection.close()
        raise
    return connection
