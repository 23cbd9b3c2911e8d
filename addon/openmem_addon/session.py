"""Own a request's way through a session: its lock, what is allowed, and the order in which things commit.

    parse ─▶ decide ─▶ render        pure, in the worker pool
      └▶ blobs ─▶ rows ─▶ state file ─▶ body        whenever a view changes; else rows follow behind

Workers return values; the event loop publishes a body and its state together. No lock is held
while the provider answers.
"""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from datetime import datetime
from functools import partial

import msgspec
from openmem_store.events import FailOpen
from openmem_store.layout import Layout
from openmem_store.queue import WriteQueue
from openmem_store.rows import Row
from openmem_store.settings import Settings
from openmem_store.writer import WriterBusy

from . import ancestry
from .ancestry import Ancestry
from .booking import Booking, Shown, Ticket
from .core import identify, rewrite, texts, tokens, trim
from .core.adapter import Route
from .core.identify import Identity
from .core.model import Conversation
from .core.rewrite import Policy, Rewrite
from .core.view import Sample, Tail, Thread
from .failopen import Log, failure
from .healing import Form, Healing
from .notices import Trimmed, Untrimmed
from .recall import Recall
from .recent import Former, Recent
from .refusals import diagnose
from .storage import Session, Storage

BYPASS_HEADER = "x-openmem-bypass"
"""With `1`, a client asks for one request what `off` asks for all; it goes no further than the proxy."""

PATIENCE_S = 10.0
"""Longest a request waits for a new view, and again for the committed one; a locked database gives up after 1 s."""

_PASSIVE = ("side", "compaction", "count")
"""Kinds of request that move no state; of these, only a compaction stores rows."""


class Inbound(msgspec.Struct, frozen=True):
    """One request as it came."""

    route: Route
    headers: Mapping[str, str]
    """Lower-case names."""
    body: bytes


class Outcome(msgspec.Struct, frozen=True):
    """What leaves, and what its answer is booked on."""

    body: bytes
    ticket: Ticket | None
    beta: str | None = None
    """A value that the `anthropic-beta` header must have."""


class _Read(msgspec.Struct, frozen=True):
    """One request, read: what it says and whose it is."""

    inbound: Inbound
    conversation: Conversation
    identity: Identity
    name: object
    """What its conversation is looked up by among the recent ones."""
    known_rows: tuple[Row, ...]
    """Rows of the request it was read with."""
    held: bool = False
    """A person wants nothing new cut, compressed or instructed; what the view holds already is rendered."""
    trim_asked: bool = False
    """A person wants a trim of this session now."""

    def may_be_forced(self) -> bool:
        """Return whether a person asked for a trim, and this is a main request that can act on it."""
        acts = self.identity.kind == "main" and self.identity.agent is None
        return self.trim_asked and acts and self.conversation.offers_tools()


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
        stored: Callable[[str], None] | None = None,
    ) -> None:
        """`disk` and `stored` as `Storage` takes them."""
        self._settings = settings
        self._workers = workers
        self._log = log
        self._storage = Storage(layout, queue, disk=disk, log=log, now=now, stored=stored)
        self.booking = Booking(self._storage)
        self.healing = Healing(self._storage, log)
        self._ancestry = Ancestry(self._storage, workers)
        self._recent = Recent()
        self._recall = Recall(settings, log)
        self._sessions: dict[str, Session] = {}
        self.fail_opens = 0

    # --- requests ---------------------------------------------------------------------------------------------------

    async def handle(self, inbound: Inbound) -> Outcome:
        """Return what leaves for a request. Never raises: a failure of ours forwards what the view allows."""
        try:
            async with asyncio.timeout(PATIENCE_S):
                read = await self._read(inbound)
        except Exception as error:
            self._failed(error, None)
            return Outcome(inbound.body, None)
        if read is None:
            return Outcome(inbound.body, None)
        session = self._session(read.identity.sid)
        session.flights += 1
        outcome = Outcome(inbound.body, None)
        try:
            async with session.lock:
                outcome = await self._rewritten(session, read)
        finally:
            if outcome.ticket is None:
                session.flights -= 1
        return outcome

    async def heal(self, ticket: Ticket, inbound: Inbound, *, status: int, refusal: bytes, sent: bytes) -> bool:
        """Return whether a refused request leaves in another form when it comes again. Never raises.

        `sent` is the body that was refused.
        """
        shown, session = ticket.shown, ticket.session
        if shown is None or diagnose(status, refusal) is None:
            return False
        try:
            async with asyncio.timeout(PATIENCE_S), session.lock:
                read = await self._read(inbound)
                if read is None:
                    return False
                policy = msgspec.structs.replace(shown.policy, force=False)
                sample = session.state.sample(shown.key, ticket.model)

                def weighed(chars: int, media: int, body: bytes) -> Form:
                    return Form(body, tokens.estimate(chars, media, sample, policy.chars_per_token))

                async def form(thread: Thread) -> Form:
                    result, body = await self._work(_rewrite, read, thread, policy, sample, self._storage.seconds())
                    return weighed(result.chars, result.media, body)

                return await self.healing.treat(
                    session,
                    shown,
                    read.conversation,
                    status=status,
                    refusal=refusal,
                    sent=weighed(ticket.chars, ticket.media, sent),
                    form=form,
                )
        except Exception as error:
            self._failed(error, session)
            return False

    async def _rewritten(self, session: Session, read: _Read) -> Outcome:
        """Try the whole rewrite; where it fails, the committed view alone; where that fails, the raw body."""
        for may_change in (True, False):
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._storage.prepare(session)
                    wishes = await self._storage.wishes(session)
                    if wishes.switch == "raw":
                        return Outcome(read.inbound.body, None)
                    held = wishes.switch == "off" or read.inbound.headers.get(BYPASS_HEADER) == "1"
                    read = msgspec.structs.replace(read, held=held, trim_asked=wishes.trim)
                    if read.conversation.previous is not None:
                        return await self._continued(session, read, read.conversation.previous)
                    if read.identity.kind in _PASSIVE:
                        return await self._passive(session, read)
                    return await self._active(session, read, may_change=may_change)
            except Exception as error:
                if isinstance(error, WriterBusy):
                    self._storage.lost(session)
                self._failed(error, session)
        return Outcome(read.inbound.body, None)

    async def _active(self, session: Session, read: _Read, *, may_change: bool) -> Outcome:
        """Return a request of a conversation: whatever its view shows, its rows are stored and its state moves."""
        inbound, conversation, identity, state = read.inbound, read.conversation, read.identity, session.state
        root = rewrite.root(conversation)
        key = f"{identity.lane}/{root}"
        if root is None:
            return Outcome(inbound.body, None)
        new = key not in state.threads
        thread = await self._ancestry.inherited(session, conversation, key) if new else state.threads[key]
        if not (self._settings.proxy_enabled or (thread and thread.changed())):
            return Outcome(inbound.body, None)
        policy = self._policy(session, read, may_change=may_change)
        forced = policy.may_change and read.may_be_forced()
        policy = msgspec.structs.replace(policy, force=forced)
        sample = state.sample(key, conversation.model)
        now = self._storage.seconds()
        result, body = await self._work(_rewrite, read, thread, policy, sample, now)
        asked = rewrite.new_cut(result, thread, conversation.items)
        recalled = await self._recalled(session, asked) if asked is not None else ()
        if recalled:
            policy = msgspec.structs.replace(policy, recalled=recalled)
            result, body = await self._work(_rewrite, read, thread, policy, sample, now)
        following = result.thread
        replaced = ancestry.replaced(session, identity, key)
        if new:
            forgotten = thread is None and await self._ancestry.forgotten(session, identity.lane, root, result)
            owned = 0 if forgotten else await self._ancestry.owned(session, result, replaced, root)
            following = msgspec.structs.replace(following, owned=owned, forgotten=forgotten)
        if replaced is not None and self._settings.proxy_enabled:
            self._storage.retire(session, replaced.rpartition("/")[2])
        if result.depends_on_store:
            await self._storage.commit(session, result, following)
        before = thread.sent if thread else None
        settled = result.settled or new
        await self._storage.save(session, key, following, must=settled and result.view.changed(), wait=may_change)
        # From here on nothing waits: the body and its state become true together.
        self._recent.keep(read.name, Former(conversation, result.rows))
        session.compacting -= {identity.lane, *identity.former}
        if self._settings.proxy_enabled:
            self._storage.follow(session, result, following)
        if forced:
            self._storage.consume_force(session)
        if result.trim is not None and result.trim.tokens_after >= result.trim.tokens_before:
            grown = f"{result.trim.tokens_before} tokens before, {result.trim.tokens_after} after"
            self._storage.tell(session, f"a trim that was asked for made its prompt no shorter: {grown}")
        if session.owner:
            self._leave_notices(session, conversation, result)
        if result.view.active and policy.require_tools and not conversation.offers_tools():
            self._storage.tell(session, f"a request no longer offers {texts.TOOL_NAME}: its thread's view stays")
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
            sent=following.sent,
            shown=Shown(key, result.view, policy),
            cache_seconds=conversation.cache_seconds,
            kept=Tail(key, result.rows[-1].fingerprint) if conversation.kept else None,
        )
        return Outcome(body, ticket, inbound.route.valve if result.rendering.valve else None)

    async def _continued(self, session: Session, read: _Read, previous: str) -> Outcome:
        """Return a request that sends only what is new: its rows go on where the response before it ended."""
        inbound, conversation, state = read.inbound, read.conversation, session.state
        tail = state.tails.get(previous)
        thread = state.threads.get(tail.key) if tail else None
        if tail is None or thread is None:
            self._storage.tell(session, "a request continues a response we did not see: it passes, and is not stored")
            return Outcome(inbound.body, None)
        policy = self._policy(session, read, may_change=False)
        result, body = await self._work(_continue, inbound.route, conversation, thread, tail, policy)
        if self._settings.proxy_enabled:
            whole = msgspec.structs.replace(result, rows=(*session.reply(previous), *result.rows))
            self._storage.follow(session, whole, thread)
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

    async def _passive(self, session: Session, read: _Read) -> Outcome:
        """Return a request that moves no state under the view its thread is committed to.

        Of a compaction its history is stored: the newest results come in no other request.
        """
        inbound, conversation, identity, state = read.inbound, read.conversation, read.identity, session.state
        root = rewrite.root(conversation)
        key = state.find(identity.lane, root) if root else None
        thread = state.threads[key] if key else None
        if thread is None and root is not None:
            begun = f"{identity.lane}/{root}"
            thread = await self._ancestry.inherited(session, conversation, begun)
            if thread is None and (thread := await self._taken_up(session, read, begun)) is not None:
                key = begun
        body, shown, trimmed, beta, chars, media = inbound.body, None, 0, None, 0, 0
        compacts = identity.kind == "compaction" and key is not None and self._settings.proxy_enabled
        if thread is not None and (compacts or thread.changed() or thread.forgotten):
            policy = self._policy(session, read, may_change=False)
            result, body = await self._work(_rewrite, read, thread, policy, None, 0)
            shown = Shown(key, result.view, policy) if key is not None else None
            trimmed, chars, media = result.trimmed, result.chars, result.media
            beta = inbound.route.valve if result.rendering.valve else None
            if compacts:
                self._storage.follow(session, rewrite.without_request(conversation, result), thread)
        if identity.kind == "compaction":
            session.compacting.add(identity.lane)
        billed = identity.kind != "count" and self._settings.proxy_enabled
        if shown is None and not billed:
            return Outcome(body, None, beta)
        ticket = Ticket(
            session=session,
            key=None,
            model=conversation.model,
            root=None,
            trimmed=trimmed,
            cache_marks=conversation.cache_marks,
            chars=chars,
            media=media,
            before=None,
            shown=shown,
            cache_seconds=conversation.cache_seconds,
            billed=billed,
        )
        return Outcome(body, ticket, beta)

    def _policy(self, session: Session, read: _Read, *, may_change: bool) -> Policy:
        """Return what may happen to a request; whether a person asked for a trim is the caller's to find out."""
        settings = self._settings
        on = settings.proxy_enabled and settings.mode == "trim" and session.owner and not read.held
        threshold = settings.threshold(read.conversation.model)
        return Policy(
            sid=session.sid,
            may_change=may_change and on,
            force=False,
            instruct=settings.standing_instruction,
            require_tools=settings.require_tools,
            trim_tokens=threshold,
            tail_tokens=int(threshold * settings.trim_to_fraction),
            compress_tokens=settings.compress_tokens,
            chars_per_token=settings.chars_per_token,
            cold_tokens=int(threshold * settings.cold_trim_fraction),
        )

    async def _recalled(self, session: Session, asked: str) -> tuple[str, ...]:
        """Return what a new cut's note says beside the pointer, from the memory bank of a session that has one."""
        bank = await self._storage.bank(session)
        if bank is None:
            return ()
        found = await self._recall.ask(bank, asked)
        block = texts.recall_block(found.text, self._settings.recall_max_chars)
        notes = (block, texts.ingesting(session.sid) if found.ingesting else "")
        return tuple(note for note in notes if note)

    def _leave_notices(self, session: Session, conversation: Conversation, result: Rewrite) -> None:
        """Leave word of a trim, and once of a session that would need one and cannot have it."""
        if result.trim is not None:
            moved = max(0, result.trim.tokens_before - result.trim.tokens_after)
            kept = len(conversation.items) - trim.missing(result.view)
            self._storage.leave(session, Trimmed(moved=moved, kept=kept))
        elif result.untrimmed and not session.state.told_untrimmed:
            session.state.told_untrimmed = True
            self._storage.leave(session, Untrimmed(untrimmed=result.untrimmed))

    async def _taken_up(self, session: Session, read: _Read, key: str) -> Thread | None:
        """Begin the state of a thread anew whose state is lost; None where the thread itself is new.

        Only where it holds signed reasoning: whose that is must be known when it is refused.
        """
        if not any(item.signed for item in read.conversation.items):
            return None
        policy = self._policy(session, read, may_change=False)
        result, _ = await self._work(_rewrite, read, None, policy, None, 0)
        lane, _, root = key.rpartition("/")
        if not await self._ancestry.forgotten(session, lane, root, result):
            return None
        thread = msgspec.structs.replace(result.thread, forgotten=True, sent=None)
        session.state.publish(key, thread)
        self._storage.write_state(session)
        return thread

    # --- plumbing ---------------------------------------------------------------------------------------------------

    async def _read(self, inbound: Inbound) -> _Read | None:
        """Read a request from where it parts from the one before it; None for one that is none of our business."""
        name = Recent.name(inbound.headers, inbound.body)
        former = self._recent.get(name)
        conversation, identity = await self._work(_read, inbound, former.conversation if former else None)
        if identity is None:
            if not (conversation.offers_tools() or self._settings.record_all):
                return None
            identity = identify.derived(inbound.headers, conversation, counts=inbound.route.counts)
        return _Read(inbound, conversation, identity, name, former.rows if former else ())

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
            self._storage.record(session, FailOpen(location=found.location, error=found.error), quiet=True)

    async def _work[**P, T](self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._workers, partial(function, *args, **kwargs))


def _read(inbound: Inbound, known: Conversation | None) -> tuple[Conversation, Identity | None]:
    conversation = inbound.route.adapter.parse(inbound.body, known)
    if inbound.route.compacts:
        conversation = msgspec.structs.replace(conversation, compacts=True)
    return conversation, identify.identify(inbound.headers, conversation, counts=inbound.route.counts)


def _rewrite(
    read: _Read, thread: Thread | None, policy: Policy, sample: Sample | None, now: float
) -> tuple[Rewrite, bytes]:
    result = rewrite.decide(read.conversation, thread, policy, sample=sample, now=now, known_rows=read.known_rows)
    return result, read.inbound.route.adapter.render(read.conversation, result.rendering)


def _continue(
    route: Route, conversation: Conversation, thread: Thread, tail: Tail, policy: Policy
) -> tuple[Rewrite, bytes]:
    result = rewrite.continued(conversation, thread, tail, policy)
    return result, route.adapter.render(conversation, result.rendering)
