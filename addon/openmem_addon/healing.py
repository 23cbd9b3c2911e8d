"""Own what happens when a provider refuses what we changed: which refusals may be ours, and what each is cured by.

A refusal is cured by changing the thread and letting the client ask again: its own retry streams,
and nothing of it is shown to the user.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping

import msgspec
from openmem_store.events import Heal

from .booking import Shown
from .core import trim
from .core.model import Conversation, mark
from .core.view import Thread, View
from .failopen import Log
from .storage import Session, Storage

HEALABLE = (400, 413, 422)
"""Statuses of a refused request; 401, 403, 429 and 5xx are never caused by what we change."""

MOST_READ = 1 << 20
"""Bytes of an error that is looked at; a longer one quotes the request and is no provider's own."""


MOST_LONGER = 1.1
"""Share of what was too long up to which a remedy's estimate may lie: it errs, and leaves our instruction out."""


class Form(msgspec.Struct, frozen=True):
    """A request as it leaves."""

    body: bytes
    tokens: int
    """Estimate."""


class Case(msgspec.Struct, frozen=True):
    """A refused request, and the thread and view it was rendered under."""

    thread: Thread
    view: View
    conversation: Conversation


class Pattern(msgspec.Struct, frozen=True):
    """A kind of refusal that what we change can cause."""

    name: str
    expression: re.Pattern[str]
    ours: Callable[[Case], bool]
    """Whether something we changed can have caused it."""
    remedies: tuple[str, ...]
    """In the order they are tried, each once for one request."""


def _left(case: Case) -> bool:
    """Something left the history."""
    return case.view.cut is not None or case.view.strip > 0


def _changed(case: Case) -> bool:
    """Reasoning is bound to what came before it, and we changed that, or may have in a state that is lost."""
    return case.thread.changed() or case.thread.forgotten


def _parted(case: Case) -> bool:
    """Something left the history, and every pair was whole before it did."""
    items = case.conversation.items
    calls = {call.id for item in items for call in item.calls}
    answers = {answer for item in items for answer in item.answers}
    return _left(case) and calls == answers


def _pattern(name: str, ours: Callable[[Case], bool], remedies: tuple[str, ...], *expressions: str) -> Pattern:
    return Pattern(name, re.compile("|".join(expressions), re.IGNORECASE), ours, remedies)


PATTERNS = (
    # platform.claude.com, "Fix a thinking block bound to a different conversation"
    _pattern("binding", _changed, ("valve", "strip"), r"bound to a different conversation"),
    # The same page's setting, where a gateway or another model does not know it (BerriAI/litellm pull request 41203)
    _pattern(
        "valve",
        lambda case: case.thread.valve,
        ("strip",),
        r"block_binding\S* (?:extra inputs|input should be)",
        r"unexpected value.{0,20} thinking-binding-controls",
        r"invalid beta flag",
    ),
    # platform.claude.com, "Troubleshooting thinking": blocks go back as they came (anthropics/claude-code issue 63404)
    _pattern(
        "signature",
        _changed,
        ("strip",),
        r"invalid (?:signature|data) in (?:redacted_)?thinking",
        r"thinking blocks in the latest assistant message cannot be modified",
    ),
    # platform.claude.com, "Extended thinking": a running tool loop begins with its reasoning; DeepSeek says it likewise
    _pattern(
        "missing",
        _left,
        ("restore", "withdraw"),
        r"expected (?:redacted_)?thinking\b",
        r"thinking in the thinking mode must be passed back",
    ),
    # Tool pairs and reasoning pairs: Anthropic, Bedrock, Chat Completions, Mistral, Gemini, Responses, in this order
    _pattern(
        "orphan",
        _parted,
        ("trim", "withdraw"),
        r"tool_use ids were found without",
        r"tool use with id \S+ was found without",
        r"unexpected tool_use_id found",
        r"(?:expected|number of) toolresult blocks",
        r"tool_calls must be followed by tool messages",
        r"tool_call_ids did not have response messages",
        r"role tool must be a response",
        r"not the same number of function calls and responses",
        r"number of function response parts is equal",
        r"no tool (?:call|output) found for",
        r"was provided without its required",
    ),
    # platform.claude.com, "Mid-conversation system messages": where one may stand
    _pattern("placement", _left, ("trim", "withdraw"), r"role system must (?:follow|precede)"),
    # A prompt over the window: Anthropic, Bedrock, OpenAI, then gateways and local servers
    _pattern(
        "long",
        lambda case: True,
        ("trim", "withdraw"),
        r"prompt (?:is )?too long",
        r"request_too_large",
        r"request (?:size )?exceeds (?:the maximum size|model context window)",
        r"exceed context limit",
        r"(?:input|request entity) (?:is )?too (?:long|large)",
        r"(?:input|prompt|request) token(?:s| count).{0,40}exceed",
        r"context[_ ](?:length|window)[_ ]exceeded",
        r"exceeds? (?:the |its )?(?:models |available )?(?:context (?:window|size|length)|limit)",
        r"maximum (?:context|prompt|allowed input) length",
        r"(?:longer|greater) than the (?:models )?context length",
        r"exceeded (?:model token limit|max_prompt_tokens)",
        r"context window exceeds limit",
        r"configured context size",
        r"reduce the length of the (?:messages|prompt|input)",
    ),
)

_QUOTES = re.compile(r"[\\`'\"]+")
"""Around names, and before quotes where a gateway packs one error in another: as many as there are layers."""

_SAYING = ("error", "errors", "upstream_error", "message", "msg", "code", "type", "detail", "reason", "metadata", "raw")
"""Members in which an error says what is wrong. The others quote the request, which may say anything."""

RETRYING_AGENTS = ("claude-cli", "codex", "opencode")
"""`user-agent` or `originator` of clients measured to ask again after a 503, unseen. What a library's
header counts are the retries it made, not those it is allowed: it may be allowed none."""

MOST_RETRIES = 2
"""A client that retried so often may give up with the next refusal."""


def diagnose(status: int, refusal: bytes) -> Pattern | None:
    """Return which of our changes may have caused a refusal, None where none can."""
    if status not in HEALABLE or len(refusal) > MOST_READ:
        return None
    text = _QUOTES.sub("", said(refusal))
    return next((pattern for pattern in PATTERNS if pattern.expression.search(text)), None)


def said(refusal: bytes) -> str:
    """Return what an error says, without what it quotes of the request."""
    text = refusal.decode(errors="replace")
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return text
    return "\n".join(_sentences(value))


def _sentences(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for part in value:
            yield from _sentences(part)
    elif isinstance(value, dict):
        for name in _SAYING:
            yield from _sentences(value.get(name))


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
