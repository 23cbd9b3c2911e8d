"""Own one session's I/O around the core: its lock, its state, the force flag, and the order in which things commit.

    parse ─▶ decide ─▶ render        pure, in the worker pool
      └▶ blobs ─▶ rows ─▶ state file ─▶ body        whenever a view changes; else rows follow behind

Workers return values; the event loop publishes a body and its state together. No lock is held
while the provider answers.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor, Future
from datetime import UTC, datetime
from functools import partial

import msgspec
from openmem_store import blobs
from openmem_store.events import Event, FailOpen
from openmem_store.events import Usage as UsageEvent
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.rows import Row, chain
from openmem_store.settings import Settings
from openmem_store.writer import SessionWriter, WriterBusy

from . import trimstate
from .core import identify, rewrite, tokens
from .core.adapter import Route
from .core.identify import Identity
from .core.model import Conversation
from .core.rewrite import Policy, Rewrite
from .core.usage import Usage
from .core.view import Sample, Sent, Tail, Thread
from .failopen import Log, failure
from .trimstate import Elsewhere, TrimState

PATIENCE_S = 10.0
"""Longest a request waits for a new view, and again for the committed one; a locked database gives up after 1 s."""

_PASSIVE = ("side", "compaction", "count")
"""Kinds of request that store no rows and move no state."""


class Inbound(msgspec.Struct, frozen=True):
    """One request as it came."""

    route: Route
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes


class Ticket(msgspec.Struct, frozen=True):
    """What the answer to a forwarded request is booked on."""

    session: "Session"
    key: str | None
    """Thread; None for a request that moves no state."""
    model: str | None
    root: str | None
    trimmed: int
    cache_marks: tuple[str, ...] | None
    chars: int
    media: int
    before: Sent | None
    """What the thread's state said was sent before this request, to return to when it is refused."""
    kept: Tail | None = None
    """Where the request's rows end, if the provider keeps its response to be continued."""


class Outcome(msgspec.Struct, frozen=True):
    """What leaves, and what its answer is booked on."""

    body: bytes
    ticket: Ticket | None


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


class Sessions:
    """Every session of this process, and what they share."""

    MOST_IDLE = 256
    """Sessions kept in memory while nobody uses them; their state is on disk."""

    def __init__(
        self,
        settings: Settings,
        layout: Layout,
        queue: WriteQueue,
        *,
        workers: Executor,
        disk: Executor,
        log: Log,
        now: Callable[[], datetime] | None = None,
    ) -> None:
        """`disk` must have one thread: it keeps the writes of a state file in order."""
        self._settings = settings
        self._layout = layout
        self._queue = queue
        self._workers = workers
        self._disk = disk
        self._log = log
        self._now = now or partial(datetime.now, UTC)
        self._elsewhere = Elsewhere(layout)
        self._sessions: dict[str, Session] = {}
        self.fail_opens = 0

    # --- requests ---------------------------------------------------------------------------------------------------

    async def handle(self, inbound: Inbound) -> Outcome:
        """Return what leaves for a request. Never raises: a failure of ours forwards what the view allows."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                conversation, identity = await self._work(_read, inbound)
        except Exception as error:
            self._failed(error, None)
            return Outcome(inbound.body, None)
        if identity is None:
            if not (conversation.offers_tools() or self._settings.record_all):
                return Outcome(inbound.body, None)
            identity = identify.derived(conversation)
        session = self._session(identity.sid)
        session.flights += 1
        outcome = Outcome(inbound.body, None)
        try:
            async with session.lock:
                outcome = await self._rewritten(session, inbound, conversation, identity)
        finally:
            if outcome.ticket is None:
                session.flights -= 1
        return outcome

    async def _rewritten(
        self, session: Session, inbound: Inbound, conversation: Conversation, identity: Identity
    ) -> Outcome:
        """Try the whole rewrite; where it fails, the committed view alone; where that fails, the raw body."""
        for may_change in (True, False):
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._prepare(session)
                    if conversation.previous is not None:
                        return await self._continued(session, inbound, conversation, conversation.previous)
                    if identity.kind in _PASSIVE:
                        return await self._passive(session, inbound, conversation, identity)
                    return await self._active(session, inbound, conversation, identity, may_change=may_change)
            except Exception as error:
                self._failed(error, session)
        return Outcome(inbound.body, None)

    async def _active(
        self,
        session: Session,
        inbound: Inbound,
        conversation: Conversation,
        identity: Identity,
        *,
        may_change: bool,
    ) -> Outcome:
        state = session.state
        root = rewrite.root(conversation)
        key = f"{identity.lane}/{root}"
        thread = state.threads.get(key)
        if root is None or not (self._settings.proxy_enabled or (thread and thread.changed())):
            return Outcome(inbound.body, None)
        new = thread is None
        if thread is None:
            thread = await self._inherited(session, conversation, key)
        forced = may_change and await self._forced(session, identity, conversation)
        policy = self._policy(session, conversation, may_change=may_change, force=forced)
        sample = state.sample(key, conversation.model)
        result, body = await self._work(_rewrite, inbound.route, conversation, thread, policy, sample)
        following = result.thread
        if new:
            following = msgspec.structs.replace(following, owned=await self._stored_elsewhere(session, result.rows))
        if result.depends_on_store:
            await self._commit(session, result, following)
        before = thread.sent if thread else None
        replaced = self._replaced_by(session, identity, key)
        settled = result.settled or new
        await self._save(session, key, following, must=settled and result.view.changed(), wait=may_change)
        # From here on nothing waits: the body and its state become true together.
        self._follow(session, result, following, replaced)
        if forced:
            self._disk.submit(self._layout.force(session.sid).unlink, missing_ok=True)
        ticket = Ticket(
            session=session,
            key=key,
            model=conversation.model,
            root=root,
            trimmed=result.trimmed,
            cache_marks=conversation.cache_marks,
            chars=result.chars,
            media=result.media,
            before=before,
            kept=Tail(key, result.rows[-1].fingerprint) if conversation.kept else None,
        )
        return Outcome(body, ticket)

    async def _continued(
        self, session: Session, inbound: Inbound, conversation: Conversation, previous: str
    ) -> Outcome:
        """Return a request that sends only what is new: its rows go on where the response before it ended."""
        state = session.state
        tail = state.tails.get(previous)
        thread = state.threads.get(tail.key) if tail else None
        if tail is None or thread is None:
            self._tell(session, "a request continues a response we did not see: it passes, and is not stored")
            return Outcome(inbound.body, None)
        policy = self._policy(session, conversation, may_change=False, force=False)
        result, body = await self._work(_continue, inbound.route, conversation, thread, tail, policy)
        self._follow(session, result, thread, None)
        last = result.rows[-1].fingerprint if result.rows else tail.fingerprint
        ticket = Ticket(
            session=session,
            key=None,
            model=conversation.model,
            root=tail.key.rpartition("/")[2],
            trimmed=0,
            cache_marks=conversation.cache_marks,
            chars=0,
            media=0,
            before=None,
            kept=Tail(tail.key, last),
        )
        return Outcome(body, ticket)

    async def _passive(
        self, session: Session, inbound: Inbound, conversation: Conversation, identity: Identity
    ) -> Outcome:
        """Return a request that moves no state under the view its thread is committed to."""
        state = session.state
        root = rewrite.root(conversation)
        key = state.find(identity.lane, root) if root else None
        thread = state.threads[key] if key else None
        body = inbound.body
        trimmed = 0
        if thread is not None and thread.changed():
            policy = self._policy(session, conversation, may_change=False, force=False)
            result, body = await self._work(_rewrite, inbound.route, conversation, thread, policy, None)
            trimmed = result.trimmed
        if identity.kind == "compaction":
            session.compacting.add(identity.lane)
        if identity.kind == "count" or not self._settings.proxy_enabled:
            return Outcome(body, None)
        ticket = Ticket(
            session=session,
            key=None,
            model=conversation.model,
            root=None,
            trimmed=trimmed,
            cache_marks=conversation.cache_marks,
            chars=0,
            media=0,
            before=None,
        )
        return Outcome(body, ticket)

    def _policy(self, session: Session, conversation: Conversation, *, may_change: bool, force: bool) -> Policy:
        settings = self._settings
        on = settings.proxy_enabled and settings.mode == "trim" and session.owner
        threshold = settings.threshold(conversation.model)
        return Policy(
            sid=session.sid,
            may_change=may_change and on,
            force=force,
            instruct=settings.standing_instruction,
            require_tools=settings.require_tools,
            trim_tokens=threshold,
            tail_tokens=int(threshold * settings.trim_to_fraction),
            compress_tokens=settings.compress_tokens,
            chars_per_token=settings.chars_per_token,
        )

    # --- what a session needs before, and leaves after --------------------------------------------------------------

    async def _prepare(self, session: Session) -> None:
        """Become the session's writer if nobody is, and read its state; without the lock, read it each time."""
        if not session.owner:
            try:
                await asyncio.wrap_future(self._queue.call(session.sid, _nothing))
            except WriterBusy:
                self._tell(session, "another proxy writes it: its view is rendered here, nothing is stored")
            else:
                session.owner = True
                session.loaded = False
        if not session.loaded:
            session.state = await self._on_disk(self._read_state, session.sid)
            session.loaded = session.owner

    def _read_state(self, sid: str) -> TrimState:
        try:
            return trimstate.read(self._layout, sid)
        except ValueError as error:
            self._log(f"{failure(error)}; the trim state is set aside and begun anew")
            trimstate.set_aside(self._layout, sid)
            return TrimState()

    async def _forced(self, session: Session, identity: Identity, conversation: Conversation) -> bool:
        """Return whether a person asked for a trim now, and this is a main request that can act on it."""
        if identity.kind != "main" or identity.lane != identify.MAIN_LANE or not conversation.offers_tools():
            return False
        return await self._on_disk(self._layout.force(session.sid).exists)

    async def _inherited(self, session: Session, conversation: Conversation, key: str) -> Thread | None:
        """Return the state of the thread that a new one is a fork of; None where it is none.

        A history that already has a reply was produced under some view: in this session first,
        then in any other.
        """
        if not any(item.kind == "assistant" for item in conversation.items):
            return None
        root = key.rpartition("/")[2]
        state = session.state
        here = list(reversed(state.threads.items()))
        found = await self._work(rewrite.inherited, conversation, root, here)
        if found is not None:
            state.samples.setdefault(key, dict(state.samples.get(found, {})))
            return state.threads[found]
        others = await self._on_disk(self._elsewhere.threads, besides=session.sid)
        by_name = {f"{sid} {other}": thread for sid, other, thread in others}
        found = await self._work(rewrite.inherited, conversation, root, list(by_name.items()))
        return by_name[found] if found is not None else None

    async def _stored_elsewhere(self, session: Session, rows: tuple[Row, ...]) -> int:
        """Return how many of a new thread's first rows another lane stored: their flags are that lane's."""
        if not session.state.threads or not session.owner:
            return 0
        return await asyncio.wrap_future(self._queue.call(session.sid, lambda writer: writer.leading_known(rows)))

    async def _commit(self, session: Session, result: Rewrite, thread: Thread) -> None:
        """Store what leaves the prompt, before it does. Raises what the store raises."""
        for text in result.blobs.values():
            await self._on_disk(blobs.write, self._layout, text)
        await asyncio.wrap_future(self._sync(session, result, thread))

    async def _save(self, session: Session, key: str, thread: Thread, *, must: bool, wait: bool) -> None:
        """Publish a thread's new state and write it. Raises OSError only where it `must` be on disk.

        `wait` False is for a disk that has just failed: the write follows when it can.
        """
        if not session.owner:
            return
        state = session.state
        previous = state.threads.get(key)
        state.publish(key, thread)
        if not wait:
            self._write_state(session)
            return
        try:
            await self._on_disk(trimstate.write, self._layout, session.sid, state.encoded())
        except OSError as error:
            if must:
                state.restore(key, previous)
                raise
            self._tell(session, f"the trim state cannot be written ({type(error).__name__}) and is kept in memory")
        except BaseException:
            state.restore(key, previous)
            raise

    def _replaced_by(self, session: Session, identity: Identity, key: str) -> str | None:
        """Return the root of the thread whose client compacted it into this new one."""
        compacted = identity.compacted or identity.lane in session.compacting
        session.compacting.discard(identity.lane)
        last = session.state.latest.get(identity.lane)
        return last.partition("/")[2] if compacted and last is not None and last != key else None

    def _follow(self, session: Session, result: Rewrite, thread: Thread, replaced: str | None) -> None:
        """Hand what is not yet stored of a request to the write-behind queue."""
        if not session.owner or not self._settings.proxy_enabled:
            return
        if not result.depends_on_store:
            self._watch(session, self._sync(session, result, thread))
        if replaced is not None:
            self._watch(session, self._queue.call(session.sid, partial(_retire, thread=replaced, at=self._at())))
        if result.trim is not None:
            self._record(session, result.trim)

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
        return self._queue.call(session.sid, job, size=sum(len(row.text) for row in result.rows))

    def _record(self, session: Session, event: Event) -> Future[None]:
        return self._queue.call(session.sid, partial(SessionWriter.record, event=event, at=self._at()))

    def _watch(self, session: Session, future: Future[None]) -> None:
        """Log a write that failed behind a request, once per kind of failure until one succeeds."""

        def done(ended: Future[None]) -> None:
            error = None if ended.cancelled() else ended.exception()
            if error is None:
                session.told.discard("write")
            elif "write" not in session.told:
                session.told.add("write")
                self._log(str(failure(error)))

        future.add_done_callback(done)

    # --- answers ----------------------------------------------------------------------------------------------------

    def refused(self, ticket: Ticket) -> None:
        """Take back what the state says was sent: the provider did not accept it."""
        state = ticket.session.state
        if ticket.key is not None and ticket.key in state.threads:
            state.threads[ticket.key] = msgspec.structs.replace(state.threads[ticket.key], sent=ticket.before)
        self._landed(ticket)

    def answered(self, ticket: Ticket, usage: Usage) -> None:
        """Book an accepted request's usage, once, and calibrate the next estimate by it."""
        session = ticket.session
        prompt = usage.prompt()
        if ticket.key is not None and ticket.key in session.state.threads and prompt:
            if prompt > tokens.MOST_CREDIBLE:
                self._tell(session, f"a reported prompt of {prompt} tokens is not credible and calibrates nothing")
            else:
                sample = Sample(prompt, ticket.chars, ticket.media)
                session.state.calibrate(ticket.key, ticket.model, sample)
        if ticket.kept is not None and usage.response_id is not None:
            rows = chain(usage.output, previous=ticket.kept.fingerprint, thread=ticket.root or "")
            last = rows[-1].fingerprint if rows else ticket.kept.fingerprint
            session.state.keep_tail(usage.response_id, Tail(ticket.kept.key, last))
        if session.owner:
            marks = ticket.cache_marks
            event = UsageEvent(
                model=ticket.model,
                thread_root=ticket.root,
                trimmed=ticket.trimmed,
                input_tokens=usage.input_tokens,
                cache_read_tokens=usage.cache_read_tokens,
                cache_creation_tokens=usage.cache_creation_tokens,
                output_tokens=usage.output_tokens,
                breakpoints=None if marks is None else len(marks),
                breakpoint_at=",".join(marks) if marks else None,
            )
            self._watch(session, self._record(session, event))
        self._landed(ticket)

    def _landed(self, ticket: Ticket) -> None:
        """End a request's flight and keep what its answer changed."""
        session = ticket.session
        session.flights -= 1
        if (ticket.key is not None or ticket.kept is not None) and session.owner:
            self._write_state(session)

    def _write_state(self, session: Session) -> None:
        future = self._disk.submit(trimstate.write, self._layout, session.sid, session.state.encoded())
        self._watch(session, future)

    # --- plumbing ---------------------------------------------------------------------------------------------------

    def _session(self, sid: str) -> Session:
        session = self._sessions.pop(sid, None) or Session(sid)
        self._sessions[sid] = session
        if len(self._sessions) > self.MOST_IDLE:
            idle = [other.sid for other in self._sessions.values() if other.flights == 0 and other is not session]
            for other in idle[:1]:
                del self._sessions[other]
        return session

    def _failed(self, error: Exception, session: Session | None) -> None:
        """Say that something of ours failed; leave the event where the session is known and can be written."""
        self.fail_opens += 1
        found = failure(error)
        self._log(str(found))
        if session is not None and session.owner:
            self._record(session, FailOpen(location=found.location, error=found.error))

    def _tell(self, session: Session, line: str) -> None:
        if line not in session.told:
            session.told.add(line)
            self._log(f"openmem-context: session {session.sid}: {line}")

    def _at(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%SZ")

    async def _work[**P, T](self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, partial(function, *args, **kwargs))

    async def _on_disk[**P, T](self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._disk, partial(function, *args, **kwargs))


def _read(inbound: Inbound) -> tuple[Conversation, Identity | None]:
    conversation = inbound.route.adapter.parse(inbound.body)
    return conversation, identify.identify(inbound.headers, conversation, counts=inbound.route.counts)


def _rewrite(
    route: Route, conversation: Conversation, thread: Thread | None, policy: Policy, sample: Sample | None
) -> tuple[Rewrite, bytes]:
    result = rewrite.decide(conversation, thread, policy, sample=sample)
    return result, route.adapter.render(conversation, result.rendering)


def _continue(
    route: Route, conversation: Conversation, thread: Thread, tail: Tail, policy: Policy
) -> tuple[Rewrite, bytes]:
    result = rewrite.continued(conversation, thread, tail, policy)
    return result, route.adapter.render(conversation, result.rendering)


def _retire(writer: SessionWriter, *, thread: str, at: str) -> None:
    writer.retire(thread, at=at)


def _nothing(writer: SessionWriter) -> None:
    """Take the session's writer lock, which opening its writer does."""
