"""Own what happens when a provider refuses what we changed: what each refusal is cured by, and how it is asked again.

A refusal is cured by changing the thread and letting the client ask again: its own retry streams,
and nothing of it is shown to the user.
"""

import json
from collections.abc import Awaitable, Callable, Mapping

import msgspec
from openmem_store.events import Heal

from .booking import Shown
from .core import trim
from .core.model import Conversation, mark
from .core.view import Thread
from .failopen import Log
from .refusals import Case, diagnose
from .storage import Session, Storage

MOST_LONGER = 1.1
"""Share of what was too long up to which a remedy's estimate may lie: it errs, and leaves our instruction out."""


class Form(msgspec.Struct, frozen=True):
    """A request as it leaves."""

    body: bytes
    tokens: int
    """Estimate."""


RETRYING_AGENTS = ("claude-cli", "codex", "opencode")
"""`user-agent` or `originator` of clients measured to ask again after a 503, unseen. What a library's
header counts are the retries it made, not those it is allowed: it may be allowed none."""

MOST_RETRIES = 2
"""A client that retried so often may give up with the next refusal."""


def retries(headers: Mapping[str, str]) -> bool:
    """Return whether a client will ask again by itself when told to. `headers` has lower-case names."""
    count = headers.get("x-stainless-retry-count", "")
    if count.isdecimal() and int(count) >= MOST_RETRIES:
        return False
    named = f"{headers.get('user-agent', '')} {headers.get('originator', '')}".lower()
    return any(agent in named for agent in RETRYING_AGENTS)


def please_retry() -> tuple[int, bytes, dict[str, str]]:
    """Return status, body and headers of the answer that makes a client ask again at once."""
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "openmem-context: please retry"}}
    headers = {
        "content-type": "application/json",
        "x-should-retry": "true",
        "retry-after-ms": "1",
        "retry-after": "0",
    }
    return 503, json.dumps(error).encode(), headers


# --- remedies ----------------------------------------------------------------------------------------------


def _valve(case: Case) -> Thread:
    """Ask the provider to drop the reasoning it calls bound, in this request and all that follow."""
    return msgspec.structs.replace(case.thread, valve=True)


def _strip(case: Case) -> Thread:
    """Send none of the reasoning there is: what is not sent needs no valve."""
    return msgspec.structs.replace(_viewing(case, strip=max(case.view.strip, _reasoned(case))), valve=False)


def _restore(case: Case) -> Thread:
    """Send the reasoning of the running tool loop again."""
    return _viewing(case, strip=min(case.view.strip, _running(case)))


def _trim(case: Case) -> Thread:
    return msgspec.structs.replace(case.thread, force=True)


def _withdraw(case: Case) -> Thread:
    """Send the client's own history, long results and reasoning aside: what a cut and our texts cost is too much."""
    base = msgspec.structs.replace(
        case.thread.base,
        active=case.view.active,
        instruct=False,
        strip=max(case.view.strip, _reasoned(case)),
        compressed=case.view.compressed,
    )
    return msgspec.structs.replace(case.thread, base=base, views=(), force=False, paused=True)


def _reasoned(case: Case) -> int:
    """Return up to where reasoning may leave: under a manual budget, a running tool loop must keep its own."""
    signed = [index + 1 for index, item in enumerate(case.conversation.items) if item.signed]
    end = signed[-1] if signed else 0
    return min(end, _running(case)) if case.conversation.manual_reasoning else end


def _running(case: Case) -> int:
    """Return where the newest run of assistant items of a view begins."""
    items = case.conversation.items
    return trim.trailing_run(items, [index for index in range(len(items)) if not case.view.drops(index)])


def _viewing(case: Case, **changes: object) -> Thread:
    return case.thread.replacing(case.view, msgspec.structs.replace(case.view, **changes))


REMEDIES: dict[str, Callable[[Case], Thread]] = {
    "valve": _valve,
    "strip": _strip,
    "restore": _restore,
    "trim": _trim,
    "withdraw": _withdraw,
}


class Healing:
    """Changes the thread a refusal was about; runs on the event loop, under the session's lock."""

    def __init__(self, storage: Storage, log: Log) -> None:
        self._storage = storage
        self._log = log

    async def treat(
        self,
        session: Session,
        shown: Shown,
        conversation: Conversation,
        *,
        status: int,
        refusal: bytes,
        sent: Form,
        form: Callable[[Thread], Awaitable[Form]],
    ) -> bool:
        """Change the thread so that the same request leaves in another form; return whether one was found.

        `sent` is what was refused, `form` what would leave under a thread. What changes nothing of
        it is no remedy, nor what makes a request clearly longer that is too long.
        """
        pattern, threads, key = diagnose(status, refusal), session.state.threads, shown.key
        if pattern is None or key not in threads or not session.owner:
            return False

        def case() -> Case:
            """Look again each time: the answer to another request may have been booked meanwhile."""
            return Case(_refused(threads[key], conversation), shown.view, conversation)

        untried = [remedy for remedy in pattern.remedies if remedy not in case().thread.tried]
        for remedy in untried if pattern.ours(case()) else ():
            formed = await form(REMEDIES[remedy](case()))
            if formed.body == sent.body or (pattern.name == "long" and formed.tokens > MOST_LONGER * sent.tokens):
                continue
            treated = REMEDIES[remedy](case())
            threads[key] = msgspec.structs.replace(treated, tried=(*treated.tried, remedy))
            self._storage.write_state(session)
            self._storage.record(session, Heal(location=remedy, error=pattern.name))
            self._log(f"openmem-context: session {session.sid}: healed a refusal ({pattern.name}) by {remedy}")
            return True
        if threads[key].paused:
            threads[key] = msgspec.structs.replace(threads[key], paused=False)
            self._storage.write_state(session)
        return False


def _refused(thread: Thread, conversation: Conversation) -> Thread:
    """Return the thread with what was tried for this request: another one has every remedy before it."""
    items = conversation.items
    name = f"{len(items)}-{mark(items[-1])}" if items else ""
    return thread if thread.refused == name else msgspec.structs.replace(thread, refused=name, tried=(), paused=False)
