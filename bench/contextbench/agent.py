"""Own what the scripted agent does with what it sees. It has no memory but the request in front of it.

It copies values, counts lines it can see, and where something was removed it asks the search tools once,
as well as its skill allows. It repeats what it found in a sentence, as models do, so that its own words
match the next search.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from bench.contextbench.sight import Called, Sight
from bench.contextbench.stream import READY, answer
from fixtures.provider.scenario import Call, Step

SEARCH = "smart_compact_search"
SQL = "smart_compact_sql"
PREFIX = "mcp__openmem__"
"""The client's, before the name of a tool."""

UNKNOWN = "UNKNOWN"

_GET = re.compile(r"^GET (K\d+)$", re.MULTILINE)
_LOOKUP = re.compile(r"^QUERY (\d+): Which service .* req=([0-9a-f]+)\?$", re.MULTILINE)
_COUNT = re.compile(r'^QUERY (\d+): How many \[(\w+)\] log lines are from service "([\w-]+)"\?$', re.MULTILINE)
_LOG_LINE = r"^\S+Z \[{level}\] {service} req="

type Json = dict[str, Any]


class Skill(msgspec.Struct, frozen=True):
    """How an agent counts lines that it no longer sees."""

    tool: str
    ask: Callable[[str, str], Json]
    """From level and service to the tool's arguments, without the session."""
    read: Callable[[Json], int | None]
    """From the tool's answer to the count; None where it holds none."""


def _one_cell(given: Json) -> int | None:
    rows = given.get("rows") or [[None]]
    return rows[0][0]


def _statement(template: str) -> Callable[[str, str], Json]:
    return lambda level, service: {"sql": template.format(level=level, service=service)}


def _line_matches(given: Json) -> int | None:
    return given.get("line_matches")


def _data(given: Json) -> int | None:
    """Take the part of the count that is the user's, without the turns that explain the task or ask."""
    by: Json = given.get("line_matches_by") or given.get("count_by") or {}
    return by.get("user", 0) if by else _one_cell(given)


LOOSE = "%[{level}]%{service}%"
SHAPE = "20%Z [{level}] {service} req=%"

SKILLS: Mapping[str, Skill] = {
    "naive": Skill(SQL, _statement(f"SELECT count(*) AS n FROM lines WHERE text LIKE '{LOOSE}'"), _one_cell),
    "role": Skill(
        SQL, _statement(f"SELECT count(*) AS n FROM lines WHERE role = 'user' AND text LIKE '{LOOSE}'"), _one_cell
    ),
    "view": Skill(SQL, _statement(f"SELECT count(*) AS n FROM source_lines WHERE text LIKE '{LOOSE}'"), _one_cell),
    "by": Skill(SQL, _statement(f"SELECT count(*) AS n FROM lines WHERE text LIKE '{LOOSE}'"), _data),
    "words": Skill(SEARCH, lambda level, service: {"query": f"[{level}] {service}"}, _line_matches),
    "distinct": Skill(
        SQL, _statement(f"SELECT count(DISTINCT text) AS n FROM lines WHERE text LIKE '{SHAPE}'"), _one_cell
    ),
    "anchored": Skill(
        SQL,
        _statement(
            f"SELECT count(*) AS n FROM source_lines WHERE role = 'user' AND message_seq > 1 AND text LIKE '{SHAPE}'"
        ),
        _one_cell,
    ),
    "lm": Skill(
        SEARCH,
        lambda level, service: {
            "pattern": _LOG_LINE.format(level=rf"{level}", service=re.escape(service)),
            "role": "user",
        },
        _data,
    ),
}
"""From the least careful to the most; "by" counts like "naive" and reads the breakdown."""


class Counted(msgspec.Struct, frozen=True):
    """A count as a tool gave it."""

    skill: str
    question: str
    value: int | None
    warned: bool
    """Whether the tool's answer showed that other text is counted too."""


class Decision(msgspec.Struct, frozen=True):
    """What the agent does next."""

    step: Step
    counted: Counted | None = None
    """A count that came from a tool."""


def decide(sight: Sight, skills: Sequence[str]) -> Decision:
    """Answer the newest operation, or ask a tool first. Each count is asked for with the next of `skills`."""
    if found := _GET.search(sight.operation):
        return _get(sight, found[1])
    if found := _LOOKUP.search(sight.operation):
        return _lookup(sight, found[1], found[2])
    if found := _COUNT.search(sight.operation):
        return _count(sight, skills[int(found[1]) % len(skills)], *found.groups())
    return Decision(Step(text=f"Kept. {READY}"))


def _get(sight: Sight, key: str) -> Decision:
    value = _last(rf"^SET {key} = (.*)$", sight.texts)
    if value is None and _can_ask(sight, SEARCH):
        return _ask(sight, SEARCH, {"pattern": f"^SET {key} = ", "role": "user"})
    if value is None:
        value = _found(sight.called, rf"SET {key} = (.*)$")
    return _answer(f"key={key}", value, f"{key} holds: {value}.")


def _lookup(sight: Sight, number: str, request: str) -> Decision:
    service = _last(rf"^\S+Z \[\w+\] (\S+) req={request} .*$", sight.texts)
    if service is None and _can_ask(sight, SEARCH):
        return _ask(sight, SEARCH, {"pattern": rf"^\S+Z \[\w+\] \S+ req={request} ", "role": "user"})
    if service is None:
        service = _found(sight.called, rf"\S+Z \[\w+\] (\S+) req={request} .*$")
    return _answer(f"qid={number}", service, f"The line with request id req={request} is from service {service}.")


def _count(sight: Sight, name: str, number: str, level: str, service: str) -> Decision:
    skill = SKILLS[name]
    said = f'[{level}] log lines are from service "{service}"'
    if sight.session is None:
        line = re.compile(_LOG_LINE.format(level=level, service=re.escape(service)), re.MULTILINE)
        seen = sum(len(line.findall(text)) for text in sight.texts[1:])
        return _answer(f"qid={number}", str(seen), f"{seen} {said}.")
    if _can_ask(sight, skill.tool):
        loose = LOOSE.format(level=level, service=service)
        examples = {"sql": f"SELECT text FROM lines WHERE text LIKE '{loose}' LIMIT 5"}
        calls = (_call(sight, skill.tool, skill.ask(level, service)), _call(sight, SQL, examples))
        return Decision(Step(text=f"I count how many {said}, and look at some.", tools=calls))
    if not sight.called:
        return _answer(f"qid={number}", None, "")
    given = sight.called[0].answer
    count = skill.read(given)
    decision = _answer(f"qid={number}", None if count is None else str(count), f"{count} {said}.")
    return Decision(decision.step, Counted(name, f"qid={number}", count, _warns(given)))


def _warns(given: Json) -> bool:
    """Tell whether an answer shows more than one origin of what it counted."""
    return len(given.get("line_matches_by", {})) > 1 or len(given.get("count_by", {})) > 1


def _can_ask(sight: Sight, tool: str) -> bool:
    return sight.session is not None and tool in sight.tools and not sight.called


def _ask(sight: Sight, tool: str, given: Json) -> Decision:
    return Decision(Step(text="That is no longer in front of me.", tools=(_call(sight, tool, given),)))


def _call(sight: Sight, tool: str, given: Json) -> Call:
    return Call(name=PREFIX + tool, input={"session_id": sight.session, **given})


def _last(pattern: str, texts: tuple[str, ...]) -> str | None:
    """Return what the newest text that holds the pattern says, the last time it does."""
    expression = re.compile(pattern, re.MULTILINE)
    for text in reversed(texts):
        if found := expression.findall(text):
            return str(found[-1])
    return None


def _found(called: tuple[Called, ...], pattern: str) -> str | None:
    """Return what the newest row of a search says: the last line of its excerpt that holds the pattern."""
    results = called[0].answer.get("results", []) if called else []
    return _last(pattern, (str(results[0]["excerpt"]),)) if results else None


def _answer(name: str, value: str | None, said: str) -> Decision:
    text = f"{said}\n{answer(name, value)}" if value is not None else f"I cannot tell.\n{answer(name, UNKNOWN)}"
    return Decision(Step(text=f"{text}\n{READY}"))
