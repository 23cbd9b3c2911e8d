"""Own `forget`: stored sessions are deleted when their owner says so, whatever their age."""

import sys
import time
from collections.abc import Collection, Mapping, Sequence

import msgspec
from openmem_store import retention, sid
from openmem_store.layout import Layout
from openmem_store.reader import databases
from openmem_store.retention import Forgotten

from openmem_addon.commands import preferences, subject

HELP = """\
usage: ./run.sh forget SESSION ...
       ./run.sh forget --all [--yes]

Deletes stored sessions: their messages, their state, and the texts that no other session needs.
The first characters of an id are enough where no other begins so.
--all asks first, unless --yes is given; where nobody can answer, as in a script, it deletes nothing
without --yes. A session in use by a running proxy is left alone."""

MOST_LISTED = 20
"""Session ids shown to a user who gave none."""

YES = ("y", "yes")


class Words(msgspec.Struct, frozen=True):
    """What was asked for."""

    sessions: tuple[str, ...]
    """Sanitised ids, whole or their first characters; empty for all."""
    sure: bool


def main(name: str, words: Sequence[str]) -> int:
    """Delete what is named. Returns 1 when something asked for is still there, 2 for words that are none of ours."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        layout = Layout(preferences.load().root)
        stored = retention.stored(layout)
        if not words:
            print("\n".join((HELP, "", *listed(stored, databases.written(layout)))), file=sys.stderr)
            return 2
        given = parse(words)
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    if not given.sessions and not given.sure and stored and not _agreed(layout, stored):
        print("openmem-context: nothing was deleted", file=sys.stderr)
        return 1
    named, unknown = subject.wholes(given.sessions, stored)
    for line in unknown:
        print(f"openmem-context: {line}", file=sys.stderr)
    if given.sessions and not named:
        return 1
    chosen = list(dict.fromkeys(named.values())) if given.sessions else list(stored)
    try:
        done = retention.forget(layout, chosen, now=time.time())
    except OSError as error:
        print(f"openmem-context: not everything could be deleted: {error.strerror}: {error.filename}", file=sys.stderr)
        return 1
    for short, session in named.items():
        if short != session and session in done.sessions:
            print(f"deleted session {session}, which {short!r} names")
    if done.sessions or done.blobs or not given.sessions:
        print(said(done, freed=sum(stored[each] for each in done.sessions)))
    for line in complaints(done):
        print(f"openmem-context: {line}", file=sys.stderr)
    return 1 if unknown or done.in_use or not done.blobs_checked else 0


def parse(words: Sequence[str]) -> Words:
    """Return what the words ask for. Raises ValueError for an option or an id that cannot be one."""
    options = {word for word in words if word.startswith("-")}
    ids = [word for word in words if word not in options]
    if unknown := options - {"--all", "--yes"}:
        raise ValueError(f"forget takes no {min(unknown)}\n{HELP}")
    if bool(ids) == ("--all" in options):
        raise ValueError(f"forget takes session ids, or --all\n{HELP}")
    return Words(tuple(dict.fromkeys(map(sid.checked, ids))), "--yes" in options)


def listed(stored: Mapping[str, int], written: Mapping[str, float]) -> list[str]:
    """Return lines that name the stored sessions with their bytes, the one written last first."""
    if not stored:
        return ["Nothing is stored."]
    newest = sorted(stored, key=lambda each: (-written.get(each, 0.0), each))
    lines = [f"{each}  {_size(stored[each])}" for each in newest[:MOST_LISTED]]
    rest = len(stored) - len(lines)
    return ["Stored sessions, the newest first:", *lines, *([f"and {rest} more"] if rest else [])]


def said(done: Forgotten, *, freed: int) -> str:
    """Return the line that says what is gone; `freed` is the bytes of its sessions."""
    texts = f", and {_count(done.blobs, 'text')} of compressed tool results" if done.blobs else ""
    return f"deleted {_count(len(done.sessions), 'session')} ({_size(freed)}){texts}"


def complaints(done: Forgotten) -> list[str]:
    """Return what was asked for and is not done, and why."""
    return [
        *(f"session {each!r} is in use: stop its agent and its proxy, then forget it" for each in done.in_use),
        *(
            []
            if done.blobs_checked
            else ["texts of compressed tool results were kept: another session's file cannot be read and may need them"]
        ),
    ]


def _agreed(layout: Layout, stored: Collection[str]) -> bool:
    """Ask. Only a person at a terminal can say yes: what a script pipes in may be meant for something else."""
    if not sys.stdin.isatty():
        print("openmem-context: forget --all asks first, and nobody can answer here: add --yes", file=sys.stderr)
        return False
    place = preferences.readable(layout.root)
    print(f"Delete all {_count(len(stored), 'stored session')} in {place}? [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in YES


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
