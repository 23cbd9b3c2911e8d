"""Own what providers say when they refuse a request, and which of it something we changed can have caused."""

import json
import re
from collections.abc import Callable, Iterator

import msgspec

from .core.model import Conversation
from .core.view import Thread, View

HEALABLE = (400, 413, 422)
"""Statuses of a refused request; 401, 403, 429 and 5xx are never caused by what we change."""

MOST_READ = 1 << 20
"""Bytes of an error that is looked at; a longer one quotes the request and is no provider's own."""


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
