"""Cost of adding rows, against a bare script's best bulk insert into the same schema, and the size on disk.

The bare script opens the file as the writer does (WAL, FULL, checkpoints after the commit) and inserts
each request's rows by one `INSERT … SELECT … FROM json_each(?)` per table: inserting row by row fires
the search triggers one by one and costs twice as much. The writer gets the whole history with each
request, as from the proxy, and must find what is new in it.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import apsw
import ratio
from corpus import Corpus
from openmem_store import schema
from openmem_store.rows import Row
from openmem_store.writer import SessionWriter

AT = "2026-01-01T00:00:00Z"
REQUEST = 4
"""Rows that one request adds: a reply, a call or two, their results."""

MESSAGES = """INSERT INTO messages(seq, fingerprint, thread, role, kind, name, text, created_at)
SELECT value->>0, value->>1, value->>2, value->>3, value->>4, value->>5, value->>6, value->>7 FROM json_each(?)"""
LINES = """INSERT INTO lines(message_seq, line_no, role, text)
SELECT value->>0, value->>1, value->>2, value->>3 FROM json_each(?)"""


class Bare:
    """The script to compare with: knows what is new, remembers nothing."""

    def __init__(self, path: Path) -> None:
        self.connection = schema.open_writer(path)

    def add(self, rows: Sequence[Row], first: int) -> None:
        messages = [(n, r.fingerprint, r.thread, r.role, r.kind, r.name, r.text, AT) for n, r in enumerate(rows, first)]
        lines = [
            (seq, number, row.role, text)
            for seq, row in enumerate(rows, first)
            for number, text in enumerate(row.text.split("\n"), 1)
        ]
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.execute(MESSAGES, (json.dumps(messages, ensure_ascii=False),))
        self.connection.execute(LINES, (json.dumps(lines, ensure_ascii=False),))
        self.connection.execute("COMMIT")

    def checkpoint(self) -> None:
        self.connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)


def sync(writer: SessionWriter, rows: Sequence[Row]) -> None:
    writer.sync(rows, dropped=(), cut=None, owned=0, blobs={}, at=AT)


def whole(folder: Path, rows: Sequence[Row], repeats: int) -> str:
    """Compare storing a whole session that arrives in one request, by CPU: the disk's part is the same and varies."""
    times: dict[str, list[float]] = {"ours": [], "bare": []}
    for number in range(repeats):
        writer = SessionWriter(folder / "sessions" / f"whole{number}.db", version="bench")
        bare = Bare(folder / f"whole{number}.db")
        work = {"ours": lambda writer=writer: sync(writer, rows), "bare": lambda bare=bare: bare.add(rows, 1)}
        for name in sorted(work, reverse=number % 2 == 0):
            begin = time.process_time()
            work[name]()
            times[name].append((time.process_time() - begin) * ratio.MILLISECONDS)
        writer.close()
        bare.connection.close()
    return ratio.line("a whole session in one request (CPU) / bare bulk insert", *times.values(), bound=1.3)


def growing(folder: Path, name: str, rows: Sequence[Row], requests: int) -> tuple[list[float], list[float], Path]:
    """Store all but the last rows, then time the last requests of both, each adding `REQUEST` rows."""
    start = len(rows) - requests * REQUEST
    path = folder / "sessions" / f"{name}.db"
    writer = SessionWriter(path, version="bench")
    bare = Bare(folder / f"{name}.db")
    for begin in range(0, start, 500):
        end = min(start, begin + 500)
        sync(writer, rows[:end])
        bare.add(rows[begin:end], begin + 1)
        writer.checkpoint()
        bare.checkpoint()
    times: tuple[list[float], list[float]] = [], []
    for end in range(start + REQUEST, len(rows) + 1, REQUEST):
        history = rows[:end]
        times[0].append(ratio.timed(lambda history=history: sync(writer, history)))
        times[1].append(ratio.timed(lambda end=end: bare.add(rows[end - REQUEST : end], end - REQUEST + 1)))
        writer.checkpoint()
        bare.checkpoint()
    bare.connection.close()
    writer.close()
    return *times, path


def size(path: Path, rows: Sequence[Row]) -> str:
    text = sum(len(row.text.encode()) for row in rows)
    connection = schema.open_reader(path)
    used = "SELECT name, sum(pgsize) FROM dbstat GROUP BY name ORDER BY 2 DESC LIMIT 5"
    parts = ", ".join(f"{name} {part / 1e6:.1f}" for name, part in connection.execute(used))
    connection.close()
    disk = path.stat().st_size
    return (
        f"size on disk {disk / 1e6:.1f} MB = {disk / text:.2f} of the text ({text / 1e6:.1f} MB); MB by part: {parts}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--requests", type=int, default=150, help="requests timed at the end of each session")
    parser.add_argument("--repeats", type=int, default=3, help="of storing a whole session")
    given = parser.parse_args()
    corpus = Corpus()
    rows = corpus.rows(given.messages, given.lines)
    print(f"{len(rows):,} rows, {sum(row.text.count(chr(10)) + 1 for row in rows):,} lines")
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        print(whole(folder, rows, given.repeats))
        ours, bare, path = growing(folder, "one", rows, given.requests)
        print(ratio.line(f"one request more, {REQUEST} rows / bare bulk insert", ours, bare, bound=1.3))
        print(size(path, rows))
        more, bare_more, _ = growing(
            folder, "four", Corpus(2).rows(4 * given.messages, 4 * given.lines), given.requests
        )
        print(ratio.line("one request more at four times the lines / at these", more, ours, bound=1.5))
        print(ratio.line("the same of the bare script", bare_more, bare))


if __name__ == "__main__":
    main()
