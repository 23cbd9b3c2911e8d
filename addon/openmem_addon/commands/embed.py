"""Own `embed`: vectors for what was stored before they were turned on, or while their model was away."""

import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Literal

import apsw
from openmem_store import missing, sid
from openmem_store.embedding import UnavailableError
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.reader import databases, source
from openmem_store.schema import UnsupportedSchema
from openmem_store.settings import Settings
from openmem_store.version import code_hash
from openmem_store.writer import WriterBusy

from openmem_addon import embedder
from openmem_addon.commands import preferences, subject
from openmem_addon.commands.terminal import Progress
from openmem_addon.filling import Run, Work

HELP = """\
usage: ./run.sh embed [--session SID]

Makes the vectors that are missing, for every stored session or for one, with the model that
CONTEXT_EMBEDDING_MODEL names. A session that a running proxy has open is left to that proxy, which
does the same by itself. The first characters of SID are enough. It may be stopped at any time; the
next one goes on from there."""

Ended = Literal["done", "down", "busy", "unreadable"]

_SAID: Mapping[Ended, str] = {
    "down": "the embedding model does not work; nothing more was tried",
    "busy": "a running proxy has it open, and makes its vectors by itself",
    "unreadable": "its database cannot be read",
}


def main(name: str, words: Sequence[str]) -> int:
    """Make what is missing. Returns 1 when something is missing still, 2 for words that are none of ours."""
    if list(words) in (["--help"], ["-h"]):
        print(HELP)
        return 0
    try:
        settings = preferences.load()
        layout = Layout(settings.root)
        sids = chosen(layout, words)
        if not settings.embedding_model:
            raise ValueError("vectors are off: set CONTEXT_EMBEDDING_MODEL, for example to local")
    except ValueError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 2
    except LookupError as error:
        print(f"openmem-context: {error}", file=sys.stderr)
        return 1
    waiting = pending(settings, layout, sids)
    if not any(waiting.values()):
        print("Nothing is missing.")
        return 0
    with Progress("messages", sum(each or 0 for each in waiting.values())) as bar:
        queue = WriteQueue(layout, version=f"proxy:{code_hash()}", log=bar.say)
        try:
            ended = fill(settings, layout, queue, waiting, bar)
        except UnavailableError as error:
            bar.say(f"openmem-context: {error}")
            return 1
        except KeyboardInterrupt:
            bar.say("openmem-context: stopped; what was made is kept")
            return 130
        finally:
            queue.close()
    for each, how in ended.items():
        if how in _SAID:
            print(f"openmem-context: session {each}: {_SAID[how]}", file=sys.stderr)
    left = sum(each or 0 for each in pending(settings, layout, sids).values())
    done = "1 message has its vector now" if bar.done == 1 else f"{bar.done:,} messages have their vectors now"
    print(f"{done}; {left:,} to go." if left else f"{done}.")
    return 1 if left else 0


def chosen(layout: Layout, words: Sequence[str]) -> tuple[str, ...]:
    """Return the sessions to look at. Raises ValueError for other words than there are, LookupError for no session."""
    match list(words):
        case []:
            return databases.stored(layout)
        case ["--session", named]:
            return (subject.whole(sid.checked(named), databases.stored(layout)),)
        case _:
            raise ValueError(f"embed takes --session SID, or nothing\n{HELP}")


def pending(settings: Settings, layout: Layout, sids: Sequence[str]) -> dict[str, int | None]:
    """Return how many rows of each session wait for a vector; None for a session that cannot be read."""
    found: dict[str, int | None] = {}
    for each in sids:
        try:
            with source.opened(layout.database(each)) as connection:
                counted = missing.progress(connection, settings.embedding_model, max_chars=settings.embedding_max_chars)
                found[each] = counted.pending
        except (apsw.Error, UnsupportedSchema):
            found[each] = None
    return found


def fill(
    settings: Settings, layout: Layout, queue: WriteQueue, waiting: Mapping[str, int | None], bar: Progress
) -> dict[str, Ended]:
    """Embed session after session and return how each ended; a model that is down ends it all.

    Raises UnavailableError.
    """
    work = embedder.work(settings, layout, queue, log=lambda line: None if _is_progress(line) else bar.say(line))
    if work is None:
        raise ValueError("vectors are off")
    ended: dict[str, Ended] = {}
    for each, rows in waiting.items():
        if rows is None:
            ended[each] = "unreadable"
        elif rows:
            ended[each] = _one(each, work, queue, bar)
        if ended.get(each) == "down":
            break
    return ended


def _one(each: str, work: Work, queue: WriteQueue, bar: Progress) -> Ended:
    taken: Future[None] = queue.call(each, lambda writer: None)
    try:
        taken.result()
    except WriterBusy:
        return "busy"
    except (apsw.Error, UnsupportedSchema, OSError):
        return "unreadable"
    run = Run(each, work)
    while True:
        before = run.embedded
        outcome = run.turn()
        bar.advance(run.embedded - before)
        if outcome != "more":
            return outcome


def _is_progress(line: str) -> bool:
    return line.startswith("openmem-context: embedded ")
