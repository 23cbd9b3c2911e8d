"""Own what differs by client: session ids, lanes, side requests and wrapper tags, as tables."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec
from openmem_store import sid

from . import texts
from .model import Conversation

RequestKind = Literal["main", "subagent", "side", "compaction", "count"]
"""`side` title, quota and other auxiliary calls; `count` a token count of a conversation."""

MAIN_LANE = "main"

SESSION_HEADERS_FIRST = ("x-openmem-session-id", "x-claude-code-session-id")
"""Asked before the body."""

SESSION_HEADERS_LAST = ("session_id", "x-session-id", "conversation_id")
"""Asked after it."""

AGENT_HEADERS = ("x-claude-code-agent-id",)
"""A subagent's own name inside its session."""

SESSION_OF_THREAD, THREAD = "session-id", "thread-id"
"""Codex names each agent's thread; the one that is named as its session is the conversation of the person."""

WINDOW_HEADER = "x-codex-window-id"
"""`<thread>:<n>`, one more after each compaction: the history of a window is another one."""

PARENT_HEADER = "x-parent-session-id"
"""A subagent of OpenCode has a session of its own and names its parent's."""

REQUEST_CLASSES: dict[str, RequestKind] = {
    "main": "main",
    "subagent": "subagent",
    "compaction": "compaction",
    "auxiliary": "side",
}
"""`x-claude-code-request-class`, as Claude Code sends it."""

TURN_HEADER = "x-codex-turn-metadata"
"""JSON about a request of Codex."""

TURN_KINDS: dict[str, RequestKind] = {"compaction": "compaction", "prewarm": "side"}
"""`request_kind` in it, where it is none of a conversation's own."""

SUBAGENT_KINDS: dict[str, RequestKind] = {"compact": "compaction"}
"""`x-openai-subagent`, likewise."""

TOOLLESS: tuple[tuple[str, RequestKind], ...] = (
    ("You are a title generator", "side"),
    ("Summarize what was done in this conversation", "side"),
    ("You are a context summarization agent", "compaction"),
)
"""How OpenCode's system texts begin that offer no tool; nothing else tells such a request apart."""

COMPACTION_HEADERS = ("x-claude-code-compaction", "x-cc-compaction-request")
COMPACTED_HEADER = "x-claude-code-context-compacted"
"""On the first request after the client compacted its own history."""

WRAPPER_TAGS = {
    "claude-code": (
        "system-reminder",
        "task-notification",
        "local-command-caveat",
        "local-command-stdout",
        "local-command-stderr",
        "command-name",
        "command-message",
        "command-args",
        "fork-boilerplate",
    ),
    "codex": (
        "environment_context",
        "extension_context",
        "user_instructions",
        "user_shell_command",
        "subagent_notification",
        "goal_context",
        "turn_aborted",
        "skill",
        "INSTRUCTIONS",
    ),
}
"""Tags around text in a user's message that the user did not type, by client (Codex: `core/src/context`)."""

WRAPPER_TITLE = r"# AGENTS\.md instructions[^\n]*\s+(?=<INSTRUCTIONS>)"
"""What Codex puts before a project's instructions."""

TASK = "Message Type: NEW_TASK\n"
"""How a message between agents of Codex begins that gives a task; others are answers and remarks."""

_LEGACY_USER = re.compile(r"_session_([0-9A-Za-z-]{8,})\Z")
_TAGS = "|".join(re.escape(tag) for tags in WRAPPER_TAGS.values() for tag in tags)
_OPENING_TAG = re.compile(rf"\s*(?:{WRAPPER_TITLE})?<({_TAGS})(?:\s[^>]*)?>")


class _User(msgspec.Struct):
    session_id: object = None


class _Turn(msgspec.Struct):
    request_kind: object = None


class Identity(msgspec.Struct, frozen=True):
    """Whose request it is."""

    sid: str
    agent: str | None
    """The subagent's own id inside the session; None for the conversation a person has."""
    kind: RequestKind
    compacted: bool
    """The client says that it compacted its history before this request."""
    window: int = 0
    """How often the client compacted this agent's history; 0 also for a client that does not count."""

    @property
    def lane(self) -> str:
        """`main` or the agent's id, with the window after the first: each lane has its own threads."""
        return self._lane(self.window)

    @property
    def former(self) -> tuple[str, ...]:
        """Lanes of this agent's earlier windows, newest first."""
        return tuple(self._lane(window) for window in reversed(range(self.window)))

    def _lane(self, window: int) -> str:
        name = self.agent or MAIN_LANE
        return f"{name}.{window}" if window else name


MOST_WINDOWS = 1_000
"""More compactions than a session can have: a higher number is none of Codex's."""


def identify(headers: Mapping[str, str], conversation: Conversation, *, counts: bool) -> Identity | None:
    """Return whose request it is, or None where no source names a session.

    `headers` has lower-case names; `counts` says that the path only counts tokens.
    """
    found = session_id(headers, conversation)
    if found is None:
        return None
    return _identity(found, headers, conversation, counts=counts)


def derived(headers: Mapping[str, str], conversation: Conversation, *, counts: bool) -> Identity:
    """Return the identity of a request without an id: a hash of its system text and first user message names it."""
    digest = hashlib.sha256(conversation.identity.encode()).hexdigest()[:16]
    return _identity(f"fp-{digest}", headers, conversation, counts=counts)


def _identity(name: str, headers: Mapping[str, str], conversation: Conversation, *, counts: bool) -> Identity:
    agent = sid.sanitize(_agent(headers) or "")
    return Identity(
        sid=name,
        agent=agent,
        kind="count" if counts else _kind(headers, conversation, subagent=agent is not None),
        compacted=bool(headers.get(COMPACTED_HEADER)),
        window=_window(headers.get(WINDOW_HEADER, "")),
    )


def _agent(headers: Mapping[str, str]) -> str | None:
    thread = headers.get(THREAD)
    if thread and headers.get(SESSION_OF_THREAD, thread) != thread:
        return thread
    return next((headers[header] for header in AGENT_HEADERS if headers.get(header)), None)


def _window(stated: str) -> int:
    number = stated.rpartition(":")[2]
    return min(int(number), MOST_WINDOWS) if number.isdecimal() and len(number) < 10 else 0


def _kind(headers: Mapping[str, str], conversation: Conversation, *, subagent: bool) -> RequestKind:
    if conversation.compacts or any(headers.get(name) for name in COMPACTION_HEADERS):
        return "compaction"
    stated = (
        REQUEST_CLASSES.get(headers.get("x-claude-code-request-class", ""))
        or TURN_KINDS.get(_turn_kind(headers.get(TURN_HEADER, "")))
        or SUBAGENT_KINDS.get(headers.get("x-openai-subagent", ""))
    )
    if stated == "side" or stated == "compaction":
        return stated
    if not conversation.tools:
        if conversation.structured or conversation.max_tokens == 1:
            return "side"
        for beginning, kind in TOOLLESS:
            if conversation.identity.startswith(beginning):
                return kind
    return stated or ("subagent" if subagent or headers.get(PARENT_HEADER) else "main")


def _turn_kind(metadata: str) -> str:
    try:
        kind = msgspec.json.decode(metadata, type=_Turn).request_kind
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        return ""
    return kind if isinstance(kind, str) else ""


def session_id(headers: Mapping[str, str], conversation: Conversation) -> str | None:
    """Return the first usable session id, sanitised; None where no source has one."""
    for candidate in _candidates(headers, conversation):
        found = sid.sanitize(candidate)
        if found is not None:
            return found
    return None


def _candidates(headers: Mapping[str, str], conversation: Conversation) -> Iterable[str]:
    yield from (headers[name] for name in SESSION_HEADERS_FIRST if name in headers)
    for user in conversation.users:
        yield from _user_session(user)
    yield from conversation.cache_keys
    yield from (headers[name] for name in SESSION_HEADERS_LAST if name in headers)


def _user_session(user: str) -> Iterable[str]:
    try:
        stated = msgspec.json.decode(user, type=_User).session_id
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        stated = None
    if isinstance(stated, str):
        yield stated
    legacy = _LEGACY_USER.search(user)
    if legacy:
        yield legacy[1]


def is_wrapper(text: str) -> bool:
    """Return whether a user's text lies wholly inside wrapper tags of a client."""
    position = 0
    while opening := _OPENING_TAG.match(text, position):
        closing = f"</{opening[1]}>"
        stop = text.find(closing, opening.end())
        if stop == -1:
            return False
        position = stop + len(closing)
    return position > 0 and not text[position:].strip()


def is_task(text: str) -> bool:
    """Return whether what one agent says to another is the task it works on: its first real user turn, or a new one."""
    return text.startswith(TASK)


def offers_search(text: str) -> bool:
    """Return whether a client's text names our search tool, sentences of ours aside."""
    return texts.TOOL_NAME in text and texts.TOOL_NAME in texts.without_ours(text)
