"""Time of a search, against bare scripts that run the same FTS5 statements, or the same engine over the same text.

Queries: the bare script counts the rows with any word and the lines with all, under the same roles, and
reads the eight best rows. It opens the file for each call. The search server lives as long as its agent and
keeps a file open between calls, so each query is measured three times: as a process's first call, which
opens the file; as the first after another request was stored, which makes SQLite drop every page it holds
and us look at the new rows; and as one more with nothing stored between. The bound is on the second and the
third, which are what an agent meets. Measured is the CPU time of the thread: neither side waits for
anything, and other work on the machine takes turns of several milliseconds.

Patterns: the bare script is a process too; it reads `messages.text` once, lets the engine find every match
and counts the lines they begin in. The server has a process ready from its second pattern on; it is given
time to start, as the seconds between two calls of an agent give it, before either side is measured.
Ripgrep runs over the exported text beside it, where it is installed.
"""

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import apsw
import ratio
from corpus import RARE, Corpus
from openmem_store.reader import pattern, search
from openmem_store.reader.echoes import ANSWER_MARKER
from openmem_store.reader.scope import Scope
from openmem_store.reader.sessions import Sessions, once
from openmem_store.reader.spares import Spares
from openmem_store.rows import Draft, Row, chain
from openmem_store.writer import SessionWriter

SEARCH = "mcp__openmem__smart_compact_search"
AT = "2026-01-01T00:00:00Z"
ROLES = ("user", "tool")
MORE = 3
"""Times as often as a pattern: a query takes some milliseconds at most."""

REQUEST = search.Request(Scope(ROLES, None, False), 8)

ROWS = """SELECT count(*) FROM messages_fts f JOIN messages m ON m.seq = f.rowid
WHERE messages_fts MATCH ? AND m.role IN ('user', 'tool')"""
LINES = """SELECT count(*) FROM lines_fts f JOIN lines l ON l.id = f.rowid
WHERE lines_fts MATCH ? AND l.role IN ('user', 'tool')"""
HITS = """SELECT m.seq, m.role, m.kind, m.name, m.in_context, m.blob_id, m.text
FROM messages_fts f JOIN messages m ON m.seq = f.rowid
WHERE messages_fts MATCH ? AND m.role IN ('user', 'tool') ORDER BY f.rank LIMIT 8"""

SCAN = """
import sys, apsw, regress
connection = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
expression = regress.Regex(sys.argv[2], "m")
rows = lines = 0
for (text,) in connection.execute("SELECT text FROM messages WHERE role IN ('user', 'tool')"):
    encoded, end, found = None, -1, 0
    for match in expression.find_iter(text):
        start = match.range().start
        if start > end:
            encoded = encoded or text.encode()
            end = encoded.find(b"\\n", start)
            found += 1
            if end < 0:
                break
    rows += bool(found)
    lines += found
print(rows, lines)
"""


def built(folder: Path, rows: tuple[Row, ...]) -> Path:
    path = folder / "sessions" / "bench.db"
    writer = SessionWriter(path, version="bench")
    for end in range(500, len(rows) + 500, 500):
        writer.sync(rows[:end], dropped=(), cut=None, owned=0, blobs={}, at=AT)
        writer.checkpoint()
    writer.close()
    return path


def bare_query(path: Path, words: str, *, count: bool) -> tuple[int, int]:
    """Return the rows with any word and the lines with all of them, the best rows read beside."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    quoted = [f'"{word}"' for word in words.split()]
    rows = 0
    if not count:
        rows = connection.execute(ROWS, (" OR ".join(quoted),)).get
        connection.execute(HITS, (" OR ".join(quoted),)).fetchall()
    lines = connection.execute(LINES, (" AND ".join(quoted),)).get
    connection.close()
    return rows, lines


def bare_scan(path: Path, expression: str) -> tuple[int, int]:
    command = [sys.executable, "-c", SCAN, str(path), expression]
    rows, lines = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
    return int(rows), int(lines)


class Growing:
    """The session, to which requests may be added. What they add holds no word of a query."""

    def __init__(self, path: Path, rows: tuple[Row, ...]) -> None:
        self._writer = SessionWriter(path, version="bench")
        self._rows = rows

    def request(self) -> None:
        """Store one more, as the proxy does: a search and what it answered, a call and its result."""
        last = self._rows[-1]
        number = len(self._rows)
        drafts = (
            Draft("assistant", "tool_use", SEARCH, f'{{"query":"asked{number}"}}'),
            Draft("tool", "tool_result", SEARCH, f'{{"note":"{ANSWER_MARKER}","results":"found{number}"}}'),
            Draft("assistant", "tool_use", "Bash", f"call{number}"),
            Draft("tool", "tool_result", "Bash", "\n".join(f"result{number}" for _ in range(60))),
        )
        self._rows += chain(drafts, previous=last.fingerprint, thread=last.thread)
        self._writer.sync(self._rows, dropped=(), cut=None, owned=0, blobs={}, at=AT)
        self._writer.checkpoint()

    def close(self) -> None:
        self._writer.close()


def queries(path: Path, rows: tuple[Row, ...], corpus: Corpus, repeats: int) -> None:
    growing = Growing(path, rows)
    sessions = Sessions(path.parent)
    for name, words in {
        "one rare word": RARE[0],
        "three rare words": " ".join(RARE),
        "a rare word and two common": f"{RARE[0]} {corpus.common(5)} {corpus.common(50)}",
        "one common word": corpus.common(20),
        "three common words": " ".join(corpus.common(rank) for rank in (5, 20, 100)),
        "eight words": " ".join(corpus.common(rank) for rank in (10, 30, 90, 270, 810, 2430, 7290, 15000)),
    }.items():
        first = partial(search.search, words, REQUEST, {"bench": path}, why="bench", opened=once)
        later = partial(search.search, words, REQUEST, {"bench": path}, why="bench", opened=sessions.opened)
        floor = partial(bare_query, path, words, count=False)
        answer = later()
        assert answer == first()
        assert (answer.total_matches, answer.line_matches) == floor(), f"{name}: the counts differ"
        print(f"{name}: {answer.total_matches:,} rows, {answer.line_matches:,} lines")
        print(ratio.line("  the first call", *ratio.cpu_in_turn(first, floor, repeats)))
        grown = ratio.cpu_in_turn(later, floor, repeats, before=growing.request)
        print(ratio.line("  the first after another request", *grown, bound=1.5))
        print(ratio.line("  one more", *ratio.cpu_in_turn(later, floor, repeats), bound=1.5))
    sessions.close()
    growing.close()


STARTED_S = 0.5
"""Seconds in which a process is ready whatever else runs; one takes 0.05 to start."""


async def patterns(path: Path, text: Path, corpus: Corpus, repeats: int) -> None:
    spares = Spares()
    for name, expression in {
        "a rare literal": RARE[1],
        "a line's shape": r"^\S+Z \[INFO\] " + corpus.common(3),
        "a path and a number": r"src/\w+/\w+\.py:\d+",
        "no literal": r"\b\d{5}\b",
        "every line": "^",
        "any case": f"(?i:{corpus.common(40)})",
        "spaces and a class": corpus.common(9) + r"\s+[^b\s]\w+",
    }.items():
        first = partial(pattern.search, expression, REQUEST, {"bench": path}, why="bench")
        later = partial(first, do=spares.run)
        floor = partial(bare_scan, path, expression)
        answer = await later()
        counts = (answer.total_matches, answer.line_matches)
        title = f"{name}: {counts[0]:,} rows, {counts[1]:,} lines"
        if answer.timed_out:
            title += ", TIMED OUT"
        elif counts != floor():
            title += f", bare {floor()}"
        times: tuple[list[float], list[float], list[float]] = [], [], []
        for _ in range(repeats):
            await anyio.sleep(STARTED_S)
            times[0].append(await taken(later))
            await anyio.sleep(STARTED_S)
            times[1].append(ratio.timed(floor))
            times[2].append(await taken(first))
        beside = f"  first call {statistics.median(times[2]) / statistics.median(times[1]):.2f}"
        print(ratio.line(title, *times[:2], bound=1.5) + beside + ripgrep(text, expression, times[1]))
    spares.close()


async def taken(work: Callable[[], Awaitable[object]]) -> float:
    begin = time.perf_counter()
    await work()
    return (time.perf_counter() - begin) * ratio.MILLISECONDS


def ripgrep(text: Path, expression: str, floor: list[float]) -> str:
    """Time ripgrep on the exported text, against the bare script; it is no part of the bound."""
    if shutil.which("rg") is None:
        return "  ripgrep is not installed"
    command = ["rg", "-P", "-c", expression.replace("\\d", "[0-9]"), str(text)]
    times = [ratio.timed(partial(subprocess.run, command, capture_output=True)) for _ in floor]
    return f"  ripgrep {statistics.median(times) / statistics.median(floor):.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--messages", type=int, default=5_000)
    parser.add_argument("--lines", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    corpus = Corpus()
    rows = corpus.rows(given.messages, given.lines)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        path = built(folder, rows)
        text = folder / "session.txt"
        text.write_text("\n".join(row.text for row in rows if row.role in ROLES))
        print(f"{len(rows):,} rows; each figure is ours / the bare script's, median of {given.repeats} or more")
        anyio.run(patterns, path, text, corpus, given.repeats)
        queries(path, rows, corpus, MORE * given.repeats)


if __name__ == "__main__":
    main()
