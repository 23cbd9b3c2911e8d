"""Own `import`: the agents' own history goes into the store, as if it had passed the proxy."""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import apsw
import msgspec
from openmem_store import layout as files
from openmem_store import registration, sid
from openmem_store.layout import Layout
from openmem_store.lock import WriterBusy
from openmem_store.registration import Registration
from openmem_store.rows import chain
from openmem_store.schema import UnsupportedSchema
from openmem_store.writer import SessionWriter

from openmem_addon.commands import preferences, rollouts, transcripts, wiring
from openmem_addon.commands.history import History, Source
from openmem_addon.commands.terminal import Progress
from openmem_addon.core.source import NotSplicable

HELP = """\
usage: ./run.sh import [FILE or FOLDER ...]

Stores what the agents keep of their own sessions: Claude Code's transcripts and Codex's rollouts, all of them without
an argument. The search tools then find it, also without the proxy. What was imported before and has not grown is
passed over, and a session that was deleted from the store comes back only where its file or folder is named. No key
and no setting of an agent is read."""

SOURCES = {
    "claude": Source("Claude Code", lambda place: place / "projects", ("**/*.jsonl",), transcripts.read),
    "codex": Source("Codex", lambda place: place, rollouts.PATTERNS, rollouts.read),
}

VERSION = "import"
"""Who wrote, in the events of a session; an import writes none."""


class Book(msgspec.Struct):
    """What was imported, so that the next import passes it over."""

    files: dict[str, tuple[int, int]] = {}
    """Time of change in nanoseconds and bytes, by path."""
    sessions: dict[str, list[str]] = {}
    """The sessions that each file holds, by path; a file without an entry was imported before there were any here."""

    def lacks(self, path: Path, layout: Layout) -> bool | None:
        """Return whether a session of an imported file was deleted from the store; None where that is not known."""
        held = self.sessions.get(str(path))
        return None if held is None else not all(layout.database(each).exists() for each in held)


class Tally(msgspec.Struct):
    """What an import did."""

    sessions: set[str] = set()
    messages: int = 0
    """Rows that were not stored before."""
    unchanged: int = 0
    """Files passed over."""
    deleted: int = 0
    """Those of them whose session is not stored any more."""
    in_use: set[str] = set()
    """Sessions that a running proxy writes: it stores them itself."""
    empty: list[Path] = []
    """Files without a session."""
    broken: list[str] = []
    """What could not be read of files that were imported, for the terminal."""
    failed: list[str] = []
    """Files that were not imported, for the terminal."""


def main(name: str, words: Sequence[str]) -> int:
    """Import. Returns 1 when a file could not be imported, 2 for words that are none of ours."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        settings = preferences.load()
        found = given(words) if words else everything(Path(os.environ.get("HOME") or Path.home()), os.environ)
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    if not found:
        print("openmem-context: no transcripts of Claude Code or Codex were found here", file=sys.stderr)
        return 1
    try:
        layout = preferences.prepare(settings)
    except OSError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 1
    with Progress("files", len(found)) as progress:
        tally = run(layout, found, progress, named=bool(words))
    named = {Path(word).absolute() for word in words}
    tally.failed += [
        f"{preferences.readable(path)} holds no session of Claude Code or Codex"
        for path in tally.empty
        if path in named
    ]
    for line in said(tally, preferences.readable(settings.root)):
        print(line)
    for line in (*tally.broken, *tally.failed):
        print(f"openmem-context: {line}", file=sys.stderr)
    return 1 if tally.failed else 0


def everything(home: Path, environ: Mapping[str, str]) -> list[tuple[Path, Source]]:
    """Return every file of every agent, the oldest session first: what is imported last is looked at first."""
    found = [
        (path, source)
        for agent, source in SOURCES.items()
        for pattern in source.patterns
        for path in source.folder(wiring.folder(agent, home, environ)).glob(pattern)
        if path.is_file()
    ]
    return sorted(found, key=lambda each: _age(each[0]))


def given(words: Iterable[str]) -> list[tuple[Path, Source]]:
    """Return the files that are named, or lie in a folder that is. Raises ValueError for one that is not there."""
    found: list[tuple[Path, Source]] = []
    for word in words:
        if word.startswith("-"):
            raise ValueError(f"import takes no {word}\n{HELP}")
        path = Path(word).absolute()
        if not path.exists():
            raise ValueError(f"{word}: no such file or folder")
        named = [path] if path.is_file() else [*path.glob("**/*.jsonl"), *path.glob("**/rollout-*.jsonl.zst")]
        named.sort(key=_age)
        found += [(each, SOURCES["codex" if each.name.startswith("rollout-") else "claude"]) for each in named]
    return found


def _age(path: Path) -> tuple[int, bool, Path]:
    """Return what sorts files by age, a subagent's behind its session's own: that one was begun first."""
    session = path.parents[1].with_name(f"{path.parents[1].name}.jsonl") if path.parent.name == "subagents" else path
    first = session if session.is_file() else path
    return first.stat().st_mtime_ns, path != first, path


def run(layout: Layout, found: Sequence[tuple[Path, Source]], progress: Progress, *, named: bool = False) -> Tally:
    """Import files in this order. Never raises for one that is damaged or in use: the tally names it.

    What a person deleted from the store stays so, but where the files are `named`.
    """
    layout.prepare()
    place = layout.root.parent / "imported.json"
    book = _read(place)
    tally = Tally()
    for path, source in found:
        progress.advance()
        stamp = (path.stat().st_mtime_ns, path.stat().st_size)
        if book.files.get(str(path)) == stamp:
            lacks = book.lacks(path, layout)
            if not named or lacks is False:
                tally.unchanged += 1
                tally.deleted += lacks is True
                continue
        try:
            histories = source.histories(path)
            for history in histories:
                store(layout, history, tally)
        except WriterBusy:
            continue  # the proxy stores it; a later import looks again
        except (OSError, ValueError, NotSplicable, apsw.Error, UnsupportedSchema) as error:
            reason = error.strerror if isinstance(error, OSError) else error
            tally.failed.append(f"{preferences.readable(path)} was not imported: {reason}")
            continue
        if histories:
            book.files[str(path)] = stamp
            book.sessions[str(path)] = sorted({name for history in histories if (name := sid.sanitize(history.sid))})
        else:
            tally.empty.append(path)
        if broken := max((history.broken for history in histories), default=0):
            tally.broken.append(f"{preferences.readable(path)}: {_count(broken, 'broken line')} passed over")
    files.replace(place, msgspec.json.encode(book))
    return tally


def store(layout: Layout, history: History, tally: Tally) -> None:
    """Store a thread's rows and register its session.

    Rows that are there keep their flags: what left a prompt has left it. Raises WriterBusy where a proxy has the
    session, ValueError for a history that does not read, and what the store raises.
    """
    session = sid.sanitize(history.sid)
    if session is None:
        raise ValueError("it names no session")
    try:
        writer = SessionWriter(layout.database(session), version=VERSION)
    except WriterBusy:
        tally.in_use.add(session)
        raise
    try:
        for body in history.whole():
            conversation = history.route.adapter.parse(body)
            rows = chain(draft for item in conversation.items if item.stored for draft in item.drafts)
            tally.messages += len(rows) - writer.leading_known(rows)
            writer.sync(rows, dropped=(), cut=None, owned=len(rows), blobs={}, at=history.began)
    finally:
        writer.close()
    tally.sessions.add(session)
    if registration.read(layout, session) is None:
        told = Registration(history.sid, agent=history.agent, cwd=history.cwd, registered_at=history.began)
        registration.write(layout, told)


def said(tally: Tally, place: str) -> list[str]:
    """Return what happened, and what to do with it."""
    lines = [f"imported {tally.messages:,} messages of {_count(len(tally.sessions), 'session')} into {place}"]
    if tally.unchanged:
        lines.append(f"{_count(tally.unchanged, 'file')} had not changed since the last import")
    if tally.deleted:
        lines.append(f"{tally.deleted:,} of them: the session was deleted since; name the file to store it again")
    if tally.in_use:
        lines.append(f"{_count(len(tally.in_use), 'session')} in use by a proxy, which stores them itself")
    if tally.sessions:
        lines.append("search them from any agent with the search tools: ./run.sh install registers them")
    return lines


def _read(place: Path) -> Book:
    try:
        return msgspec.json.decode(place.read_bytes(), type=Book)
    except (FileNotFoundError, msgspec.MsgspecError):
        return Book()  # all is looked at again, and stored once


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
