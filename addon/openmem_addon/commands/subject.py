"""Own the one stored session that a command is about: its id from the command line, and its file read."""

import sys
from collections.abc import Callable, Sequence

import apsw
import msgspec
from openmem_store import schema, sid
from openmem_store.layout import Layout
from openmem_store.reader import source

from openmem_addon.commands import preferences


class Subject[T](msgspec.Struct, frozen=True):
    layout: Layout
    session: str
    """Sanitised id."""
    found: T
    """What was read of it."""


def read[T](name: str, words: Sequence[str], help: str, reading: Callable[[apsw.Connection], T]) -> Subject[T] | int:
    """Return the session that the words of a command name, read by `reading`, which may raise apsw.Error.

    Instead the exit code, after saying why: 0 where help was asked for, 1 for a session that is not
    stored or cannot be read, 2 for words that name none.
    """
    if list(words) in (["--help"], ["-h"]):
        print(help)
        return 0
    try:
        if len(words) != 1 or words[0].startswith("-"):
            raise ValueError(f"{name} takes one session id; `./run.sh status` lists the newest\n{help}")
        session = sid.checked(words[0])
        layout = Layout(preferences.load().root)
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
