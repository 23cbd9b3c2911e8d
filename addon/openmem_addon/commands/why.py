"""Own `why`: for each trim of a session when it was, what left, and what the agent looked up afterwards."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import cast

import apsw
import msgspec
from openmem_store import owntools, schema

from openmem_addon.commands import subject as about
from openmem_addon.commands import terminal
from openmem_addon.commands.terminal import Line, Page
from openmem_addon.core import texts

HELP = """\
usage: ./run.sh why SESSION

Says for each trim of a session when it was and at how many tokens, what left the prompt, and what the agent looked up
until the next."""

MOST_ASKED = 20
"""Look-ups shown after one trim."""

WIDTH = 110
"""Characters of a look-up that are shown."""


class Cause(msgspec.Struct, frozen=True):
    """One trim."""

    at: str
    before: int
    after: int
    dropped: int
    left: tuple[tuple[str, int], ...]
    """What left by kind, and how many rows, the largest first."""
    asked: tuple[str, ...]
    """Calls of our tools until the next trim."""


def main(name: str, words: Sequence[str]) -> int:
    """Print it. Returns 1 for a session that is not stored, 2 for words that are none of ours."""
    subject = about.read(name, words, HELP, read)
    if isinstance(subject, int):
        return subject
    terminal.put(page(subject.session, subject.found))
    return 0


_TRIMS = "SELECT at, tokens_before, tokens_after, dropped FROM events WHERE kind = 'trim' ORDER BY id"
_LEFT = """
SELECT trimmed_at, role, kind, name FROM messages WHERE in_context = 0 AND trimmed_at_seq IS NOT NULL ORDER BY seq"""
_ASKED = """
SELECT created_at, name, text FROM messages
WHERE kind = 'tool_use' AND (name LIKE ?1 OR text LIKE ?1) ORDER BY seq"""


_IN_CODE = re.compile(r"""\btools(?:\.|\[\s*["'])([\w.-]+)["'\]\s]*\(""")
"""A call in what Codex runs as code, with the name of its tool."""


def read(connection: apsw.Connection) -> list[Cause]:
    """Return the trims of a session in order. Raises apsw.Error."""
    if schema.user_version(connection) < 2:
        return []
    trims = cast("list[tuple[str, int, int, int]]", list(connection.execute(_TRIMS)))
    left = cast("list[tuple[str, str, str, str | None]]", list(connection.execute(_LEFT)))
    pattern = (f"%{texts.TOOL_PREFIX}%",)
    named = cast("list[tuple[str, str, str]]", list(connection.execute(_ASKED, pattern)))
    asked = [(at, tool, text) for at, tool, text in named if _is_look_up(tool, text)]
    causes: list[Cause] = []
    previous = ""
    for place, (at, before, after, dropped) in enumerate(trims):
        following = trims[place + 1][0] if place + 1 < len(trims) else "9999"
        # Rows are stored just before the event of their trim, so they carry its second or an earlier one.
        kinds = Counter(_heading(role, kind, tool) for when, role, kind, tool in left if previous < when <= at)
        calls = tuple(_call(tool, text) for when, tool, text in asked if at <= when < following)
        causes.append(Cause(at, before, after, dropped, tuple(kinds.most_common()), calls))
        previous = at
    return causes


def page(session: str, causes: Sequence[Cause]) -> Page:
    """Return what is shown."""
    if not causes:
        return [(f"{session} was never trimmed",)]
    lines: list[Line] = []
    for cause in causes:
        left = f"{_count(cause.dropped, 'message')} left"
        lines.append(((cause.at, "bold"), f"  {cause.before:,} → {cause.after:,} tokens, {left}"))
        lines += [(f"  {count:>6,}  {heading}",) for heading, count in cause.left]
        if cause.asked:
            lines.append((f"  looked up afterwards: {_count(len(cause.asked), 'time')}",))
            lines += [("    ", (call, "cyan")) for call in cause.asked[:MOST_ASKED]]
        else:
            lines.append(("  nothing was looked up",))
        if len(cause.asked) > MOST_ASKED:
            lines.append((f"    and {len(cause.asked) - MOST_ASKED:,} more",))
    return lines


def _is_look_up(tool: str, text: str) -> bool:
    """Return whether a call is one of a tool of ours, by its name or in the code that it runs.

    A client's own search for tools names ours, and calls none.
    """
    return owntools.is_own(tool) or any(map(owntools.is_own, _IN_CODE.findall(text)))


def _heading(role: str, kind: str, tool: str | None) -> str:
    if kind == "tool_result":
        return f"result of {tool}" if tool else "tool result"
    if kind == "tool_use":
        return f"call of {tool}"
    return "reasoning" if kind == "thinking" else f"{role}'s message"


def _call(tool: str, text: str) -> str:
    whole = f"{tool.rsplit('__', 1)[-1]} {' '.join(text.split())}"
    return whole if len(whole) <= WIDTH else f"{whole[: WIDTH - 1]}…"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
