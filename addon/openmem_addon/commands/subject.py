"""Own the one stored session that a command is about: its id from the command line, and its file read."""

import sys
from collections.abc import Callable, Sequence

import apsw
import msgspec
from openmem_store import schema, sid
from openmem_store.layout import Layout
from openmem_store.reader import databases, source

from openmem_addon.commands import preferences

MOST_NAMED = 5
"""Sessions named where an id fits several."""


class Subject[T](msgspec.Struct, frozen=True):
    layout: Layout
    session: str
    """Sanitised id."""
    found: T
    """What was read of it."""


def read[T](name: str, words: Sequence[str], help: str, reading: Callable[[apsw.Connection], T]) -> Subject[T] | int:
    """Return the session that the words of a command name, read by `reading`, which may raise apsw.Error.

    The first characters of an id are enough where no other begins so. Instead the exit code, after
    saying why: 0 where help was asked for, 1 for a session that is not stored or cannot be read, 2
    for words that name none or several.
    """
    if list(words) in (["--help"], ["-h"]):
        print(help)
        return 0
    try:
        if len(words) != 1 or words[0].startswith("-"):
            raise ValueError(f"{name} takes one session id; `./run.sh status` lists the newest\n{help}")
        layout = Layout(preferences.load().root)
        session = _whole(layout, sid.checked(words[0]))
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    if not layout.database(session).is_file():
        print(f"openmem-context: no session {session!r} is stored", file=sys.stderr)
        return 1
    try:
        with source.opened(layout.database(session)) as connection:
            return Subject(layout, session, reading(connection))
    except (apsw.Error, schema.UnsupportedSchema) as error:
        print(f"openmem-context: session {session!r} cannot be read: {type(error).__name__}", file=sys.stderr)
        return 1


def _whole(layout: Layout, given: str) -> str:
    """Return the one stored id that begins as given. Raises ValueError where several do."""
    if layout.database(given).is_file():
        return given
    meant = [each for each in databases.stored(layout) if each.startswith(given)]
    if len(meant) > 1:
        raise ValueError(f"{len(meant)} sessions begin with {given!r}: {', '.join(sorted(meant)[:MOST_NAMED])}")
    return meant[0] if meant else given
