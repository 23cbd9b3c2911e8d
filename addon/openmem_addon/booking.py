"""Own what becomes of a forwarded request: its answer is booked on a ticket, once, as usage and as calibration."""

import msgspec
from openmem_store.events import Usage as UsageEvent
from openmem_store.rows import chain

from .core import tokens
from .core.rewrite import Policy
from .core.usage import Usage
from .core.view import Sample, Sent, Tail, View
from .storage import Session, Storage


class Shown(msgspec.Struct, frozen=True):
    """What a request was rendered under, also one that moves no state."""

    key: str
    """Thread."""
    view: View
    policy: Policy


class Ticket(msgspec.Struct, frozen=True):
    """What the answer to a forwarded request is booked on."""

    session: Session
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
    sent: Sent | None = None
    """What it says since; another request may have been sent meanwhile."""
    shown: Shown | None = None
    """None for a request that no view was applied to."""
    cache_seconds: int = 0
    """Longest time for which the provider may keep the prefix of this request."""
    billed: bool = True
    """Its answer reports usage that was paid for; a token count does not."""
    kept: Tail | None = None
    """Where the request's rows end, if the provider keeps its response to be continued."""


class Booking:
    """Books answers; runs on the event loop and waits for nothing."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def refused(self, ticket: Ticket) -> None:
        """Take back what the state says was sent: the provider did not accept it."""
        state = ticket.session.state
        thread = state.threads.get(ticket.key) if ticket.key is not None else None
        if ticket.key is not None and thread is not None and thread.sent == ticket.sent:
            state.threads[ticket.key] = msgspec.structs.replace(thread, sent=ticket.before)
        self._landed(ticket)

    def answered(self, ticket: Ticket, usage: Usage) -> None:
        """Book an accepted request's usage, once, and calibrate the next estimate by it."""
        session = ticket.session
        prompt = usage.prompt()
        if ticket.key is not None and ticket.key in session.state.threads and prompt:
            if prompt > tokens.MOST_CREDIBLE:
                self._storage.tell(
                    session, f"a reported prompt of {prompt} tokens is not credible and calibrates nothing"
                )
            else:
                sample = Sample(prompt, ticket.chars, ticket.media)
                session.state.calibrate(ticket.key, ticket.model, sample)
        thread = session.state.threads.get(ticket.key or "")
        if ticket.key is not None and thread is not None and thread.refused:
            session.state.threads[ticket.key] = msgspec.structs.replace(thread, refused="", tried=(), paused=False)
        self._warmed(ticket)
        if ticket.kept is not None and usage.response_id is not None:
            rows = chain(usage.output, previous=ticket.kept.fingerprint, thread=ticket.root or "")
            last = rows[-1].fingerprint if rows else ticket.kept.fingerprint
            session.state.keep_tail(usage.response_id, Tail(ticket.kept.key, last))
            session.keep_reply(usage.response_id, rows)
        if session.owner and ticket.billed:
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
            self._storage.record(session, event)
        self._landed(ticket)

    def _warmed(self, ticket: Ticket) -> None:
        """Note for how long the provider may keep what it has just answered; a token count leaves nothing there."""
        threads = ticket.session.state.threads
        key = ticket.shown.key if ticket.shown is not None and ticket.billed else None
        if key is not None and key in threads and ticket.cache_seconds:
            until = max(threads[key].warm_until, self._storage.seconds() + ticket.cache_seconds)
            threads[key] = msgspec.structs.replace(threads[key], warm_until=until)

    def _landed(self, ticket: Ticket) -> None:
        """End a request's flight and keep what its answer changed."""
        session = ticket.session
        session.flights -= 1
        if (ticket.key is not None or ticket.kept is not None) and session.owner:
            self._storage.write_state(session)
