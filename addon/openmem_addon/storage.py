"""Own one session's way to disk: who may write it, its state file, its rows and events, and failures behind a request.

Nothing here decides what a model is shown.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from datetime import UTC, datetime
from functools import partial

import msgspec
from openmem_store import blobs, registration
from openmem_store.events import Event
from openmem_store.layout import Layout
from openmem_store.queue import QueueFull, WriteQueue
from openmem_store.rows import Row
from openmem_store.writer import SessionWriter, WriterBusy

from . import notices, switch, trimstate
from .core.rewrite import Rewrite
from .core.view import Thread
from .failopen import Log, failure
from .notices import Notice
from .switch import Switch
from .trimstate import Elsewhere, TrimState

MOST_REPLIES = 16
"""Kept responses whose words one session holds until they are continued; a client continues its newest."""


class Session:
    """One session's state, held by the event loop."""

    def __init__(self, sid: str) -> None:
        self.sid = sid
        self.lock = asyncio.Lock()
        self.state = TrimState()
        self.loaded = False
        self.owner = False
        """We hold the session's writer lock; without it the committed view is rendered and nothing written."""
        self.compacting: set[str] = set()
        """Lanes whose client asked for a summary of its own: the next new thread replaces the old one."""
        self.told: set[str] = set()
        """Warnings given, each once."""
        self.flights = 0
        """Requests under way or unanswered."""
        self._replies: dict[str, tuple[Row, ...]] = {}
        """By response id: what the newest kept responses said. No request repeats it if the client continues one."""

    def keep_reply(self, response: str, rows: tuple[Row, ...]) -> None:
        self._replies[response] = rows
        while len(self._replies) > MOST_REPLIES:
            del self._replies[next(iter(self._replies))]

    def reply(self, response: str) -> tuple[Row, ...]:
        """Return the rows of a kept response; none where this process did not see its answer."""
        return self._replies.get(response, ())


class Wishes(msgspec.Struct, frozen=True):
    """What a person asks of a running session."""

    switch: Switch
    """What is switched off, for this session or for all."""
    trim: bool
    """To trim with the next request that can."""


class Storage:
    """The disk, as the event loop uses it: what waits is awaited, what need not is watched."""

    def __init__(
        self,
        layout: Layout,
        queue: WriteQueue,
        *,
        disk: Executor,
        log: Log,
        now: Callable[[], datetime] | None = None,
        stored: Callable[[str], None] | None = None,
    ) -> None:
        """`disk` must have one thread: it keeps the writes of a state file in order.

        `stored` is told of a session when rows of it were written, on the thread that wrote them.
        """
        self._layout = layout
        self._queue = queue
        self._disk = disk
        self._log = log
        self._now = now or partial(datetime.now, UTC)
        self._stored = stored
        self._elsewhere = Elsewhere(layout)

    async def prepare(self, session: Session) -> None:
        """Become the session's writer if nobody is, and read its state; without the lock, read it each time."""
        if not session.owner:
            try:
                await asyncio.wrap_future(self._queue.call(session.sid, _nothing))
            except WriterBusy:
                self.tell(session, "another proxy writes it: its view is rendered here, nothing is stored")
            except (OSError, QueueFull) as error:
                kind = type(error).__name__
                self.tell(session, f"it cannot be written ({kind}): its view is rendered, nothing is stored")
            else:
                session.owner = True
                session.loaded = False
        if not session.loaded:
            session.state = await self._on_disk(self._read_state, session.sid, owner=session.owner)
            session.loaded = session.owner

    def lost(self, session: Session) -> None:
        """Take note that another process writes the session now: an idle one's writer is closed to make room."""
        session.owner = session.loaded = False

    def _read_state(self, sid: str, *, owner: bool) -> TrimState:
        try:
            return trimstate.read(self._layout, sid)
        except ValueError as error:
            if not owner:
                raise  # another process's file, perhaps of a newer version, is not ours to move
            self._log(f"{failure(error)}; the trim state is set aside and begun anew")
            trimstate.set_aside(self._layout, sid)
            return TrimState()

    async def wishes(self, session: Session) -> Wishes:
        """Return what a person asks of a session at the moment."""
        return await self._on_disk(self._wishes, session.sid)

    def _wishes(self, sid: str) -> Wishes:
        """In one step: each step of this thread stands behind the writes of every session."""
        return Wishes(switch.read(self._layout, sid), self._layout.force(sid).exists())

    def consume_force(self, session: Session) -> None:
        """Take the flag away: its trim was planned."""
        self._watch(session, "flag", self._disk.submit(self._layout.force(session.sid).unlink, missing_ok=True))

    async def bank(self, session: Session) -> str | None:
        """Return the memory bank that a session is registered with."""
        known = await self._on_disk(registration.read, self._layout, session.sid)
        return known.bank or None if known is not None else None

    def leave(self, session: Session, notice: Notice) -> None:
        """Leave something for the agent's prompt hook to say."""
        self._watch(session, "notice", self._disk.submit(notices.leave, self._layout, session.sid, notice))

    async def changed_elsewhere(self, session: Session) -> list[tuple[str, str, Thread]]:
        """Return session id, key and thread of every changed thread of the other sessions."""
        return await self._on_disk(self._elsewhere.threads, besides=session.sid)

    async def stored_elsewhere(self, session: Session, rows: tuple[Row, ...]) -> int:
        """Return how many of a new thread's first rows another lane stored: their flags are that lane's."""
        return await self.leading_known(session, rows) if session.state.threads else 0

    async def leading_known(self, session: Session, rows: tuple[Row, ...]) -> int:
        """Return how many of a thread's first rows are stored already."""
        if not session.owner:
            return 0
        return await asyncio.wrap_future(self._queue.call(session.sid, lambda writer: writer.leading_known(rows)))

    async def commit(self, session: Session, result: Rewrite, thread: Thread) -> None:
        """Store what leaves the prompt, before it does. Raises what the store raises."""
        for text in result.blobs.values():
            await self._on_disk(blobs.write, self._layout, text)
        await asyncio.wrap_future(self._sync(session, result, thread))

    async def save(self, session: Session, key: str, thread: Thread, *, must: bool, wait: bool) -> None:
        """Publish a thread's new state and write it. Raises OSError only where it `must` be on disk.

        `wait` False is for a disk that has just failed: the write follows when it can.
        """
        if not session.owner:
            return
        state = session.state
        previous, latest = state.threads.get(key), dict(state.latest)
        state.publish(key, thread)
        if not wait:
            self.write_state(session)
            return
        try:
            await self._on_disk(trimstate.write, self._layout, session.sid, state.encoded())
        except OSError as error:
            if must:
                state.restore(key, previous, latest)
                raise
            self.tell(session, f"the trim state cannot be written ({type(error).__name__}) and is kept in memory")
        except BaseException:
            state.restore(key, previous, latest)
            raise

    def retire(self, session: Session, thread: str) -> None:
        """Take a thread that its client compacted out of context; `thread` is its first row.

        Before the rows of the thread it became are stored: the two may have their first rows in common.
        """
        if session.owner:
            retired = self._queue.call(session.sid, partial(_retire, thread=thread, at=self._at()))
            self._watch(session, "rows", retired)

    def follow(self, session: Session, result: Rewrite, thread: Thread) -> None:
        """Hand what is not yet stored of a request to the write-behind queue."""
        if not session.owner:
            return
        if not result.depends_on_store:
            self._watch(session, "rows", self._sync(session, result, thread))
        if result.trim is not None:
            self.record(session, result.trim)

    def _sync(self, session: Session, result: Rewrite, thread: Thread) -> Future[None]:
        job = partial(
            SessionWriter.sync,
            rows=result.rows,
            dropped=result.dropped,
            cut=result.cut_row,
            owned=thread.owned,
            blobs=result.blob_ids,
            at=self._at(),
        )
        written = self._queue.call(session.sid, job, size=sum(len(row.text) for row in result.rows))
        if self._stored is not None:
            written.add_done_callback(partial(_tell, self._stored, session.sid))
        return written

    def record(self, session: Session, event: Event, *, quiet: bool = False) -> None:
        """Append an event behind the request. `quiet` is for one about a failure that was logged already."""
        future = self._queue.call(session.sid, partial(SessionWriter.record, event=event, at=self._at()))
        if not quiet:
            self._watch(session, "events", future)

    def write_state(self, session: Session) -> None:
        """Write the state behind a request."""
        future = self._disk.submit(trimstate.write, self._layout, session.sid, session.state.encoded())
        self._watch(session, "state", future)

    def _watch(self, session: Session, what: str, future: Future[None]) -> None:
        """Log a write that failed behind a request, once for what is written until one succeeds."""

        def done(ended: Future[None]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if error is None:
                session.told.discard(what)
                return
            if isinstance(error, WriterBusy):
                self.lost(session)
            if what not in session.told:
                session.told.add(what)
                self._log(str(failure(error)))

        future.add_done_callback(done)

    def tell(self, session: Session, line: str) -> None:
        """Log a line about a session, once."""
        if line not in session.told:
            session.told.add(line)
            self._log(f"openmem-context: session {session.sid}: {line}")

    def seconds(self) -> float:
        """Return the time, seconds since the epoch."""
        return self._now().timestamp()

    def _at(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _on_disk[**P, T](self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, partial(function, *args, **kwargs))


def _tell(stored: Callable[[str], None], sid: str, written: Future[None]) -> None:
    if not written.cancelled() and written.exception() is None:
        stored(sid)


def _retire(writer: SessionWriter, *, thread: str, at: str) -> None:
    writer.retire(thread, at=at)


def _nothing(writer: SessionWriter) -> None:
    """Take the session's writer lock, which opening its writer does."""
