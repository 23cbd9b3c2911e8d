"""Own which stored session a command is about: its id from the command line, whole or its first characters."""

import sys
from collections.abc import Callable, Collection, Iterable, Sequence

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

    Instead the exit code, after saying why: 0 where help was asked for, 1 for an id that names none
    or several of the stored sessions, and for a session that cannot be read, 2 for other words.
    """
    if list(words) in (["--help"], ["-h"]):
        print(help)
        return 0
    try:
        if len(words) != 1 or words[0].startswith("-"):
            raise ValueError(f"{name} takes one session id; `./run.sh status` lists the newest\n{help}")
        layout = Layout(preferences.load().root)
        session = whole(sid.checked(words[0]), databases.stored(layout))
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    except LookupError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 1
    try:
        with source.opened(layout.database(session)) as connection:
            return Subject(layout, session, reading(connection))
    except (apsw.Error, schema.UnsupportedSchema) as error:
        print(f"openmem-context: session {session!r} cannot be read: {type(error).__name__}", file=sys.stderr)
        return 1


def whole(given: str, known: Collection[str]) -> str:
    """Return the one known id that is as given, or that alone begins so.

    `given` is sanitised. Raises LookupError, in words for a person, where there is none or are several.
    """
    if given in known:
        return given
    meant = sorted(each for each in known if each.startswith(given))
    if not meant:
        raise LookupError(f"no session {given!r} is stored")
    if len(meant) > 1:
        more = f" and {len(meant) - MOST_NAMED:,} more" if len(meant) > MOST_NAMED else ""
        raise LookupError(f"{len(meant):,} sessions begin with {given!r}: {', '.join(meant[:MOST_NAMED])}{more}")
    return meant[0]


def wholes(given: Iterable[str], known: Collection[str]) -> tuple[dict[str, str], list[str]]:
    """Return the session that each id names, as `whole` does, and what there is to say of those that name none."""
    found: dict[str, str] = {}
    complaints: list[str] = []
    for each in given:
        try:
            found[each] = whole(each, known)
        except LookupError as error:
            complaints.append(str(error))
    return found, complaints
