"""Hold the reasons to what the session's own file says."""

from pathlib import Path

import pytest
from openmem_addon.commands import terminal, why
from openmem_store.events import Trim
from openmem_store.layout import Layout
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter

SEARCH = "mcp__openmem__smart_compact_search"
FIRST = [
    Draft("user", "text", None, "Read them."),
    Draft("assistant", "tool_use", "Read", "{}"),
    Draft("tool", "tool_result", "Read", "the text"),
    Draft("assistant", "thinking", None, "a thought"),
    Draft("user", "text", None, "And?"),
]
# As Claude Code asks for a tool that it has not loaded yet.
LOADING = Draft("assistant", "tool_use", "ToolSearch", f'{{"query":"select:{SEARCH}","max_results":5}}')
THEN = [Draft("assistant", "tool_use", SEARCH, '{"query":"copper"}'), Draft("tool", "tool_result", SEARCH, "[]")]
LAST = [Draft("user", "text", None, "On."), Draft("assistant", "tool_use", "exec", "tools.smart_compact_sql(…)")]


@pytest.fixture
def layout(empty_home: Path) -> Layout:
    made = Layout(empty_home / ".local/share/openmem/context")
    made.prepare()
    writer = SessionWriter(made.database("s-1"), version="v")
    rows = chain([*FIRST, *THEN, *LAST, LOADING])
    for count, dropped, cut, at, trim in (
        (5, (1, 2, 3), 4, "2026-10-29T17:00:00Z", Trim(tokens_before=9000, tokens_after=4000, dropped=3)),
        (7, (1, 2, 3), 4, "2026-10-29T17:01:00Z", None),
        (8, (1, 2, 3, 4, 5, 6), 7, "2026-10-29T17:02:00Z", Trim(tokens_before=8000, tokens_after=3000, dropped=1)),
        (10, (1, 2, 3, 4, 5, 6), 7, "2026-10-29T17:03:00Z", None),
    ):
        writer.sync(rows[:count], dropped=dropped, cut=cut, owned=0, blobs={}, at=at)
        if trim is not None:
            writer.record(trim, at=at)
    writer.close()
    return made


@pytest.mark.usefixtures("layout")
def test_each_trim_names_what_left_and_what_was_looked_up(capsys: pytest.CaptureFixture[str]) -> None:
    assert why.main("why", ["s-1"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "2026-10-29T17:00:00Z  9,000 → 4,000 tokens, 3 messages left",
        "       1  call of Read",
        "       1  result of Read",
        "       1  reasoning",
        "  looked up afterwards: 1 time",
        '    smart_compact_search {"query":"copper"}',
        "2026-10-29T17:02:00Z  8,000 → 3,000 tokens, 1 message left",
        "       1  user's message",
        f"       1  call of {SEARCH}",
        f"       1  result of {SEARCH}",
        "  looked up afterwards: 1 time",
        "    exec tools.smart_compact_sql(…)",
    ]


@pytest.mark.parametrize(
    ("tool", "text", "counts"),
    [
        (SEARCH, "{}", True),
        ("openmem_smart_compact_get", "{}", True),
        ("exec", "await tools.mcp__openmem__smart_compact_sql({sql: 'SELECT 1'})", True),
        ("exec", 'await tools["mcp__openmem__smart_compact_search"]({query: "copper"})', True),
        ("exec", "ALL_TOOLS.filter(tool => tool.name.includes('smart_compact_'))", False),
        ("ToolSearch", f'{{"query":"select:{SEARCH}"}}', False),
        ("Bash", '{"command":"grep -rn smart_compact_search( src"}', False),
    ],
)
def test_only_a_call_of_our_own_tools_is_a_look_up(tool: str, text: str, counts: bool) -> None:
    assert why._is_look_up(tool, text) == counts


def test_a_long_list_and_a_long_call_are_cut() -> None:
    cause = why.Cause("t", 1, 1, 1, (), tuple(f"c{number}" for number in range(23)))
    lines = terminal.plain(why.page("s", [cause]))
    assert lines[-1] == "    and 3 more"
    assert why._call("x", "y" * 300) == f"x {'y' * 107}…"


def test_a_trim_after_which_nothing_was_looked_up_says_so() -> None:
    cause = why.Cause("t", 9000, 4000, 1, (("reasoning", 1),), ())
    assert terminal.plain(why.page("s", [cause])) == [
        "t  9,000 → 4,000 tokens, 1 message left",
        "       1  reasoning",
        "  nothing was looked up",
    ]


def test_a_session_without_a_trim_says_so() -> None:
    assert terminal.plain(why.page("s", [])) == ["s was never trimmed"]


@pytest.mark.usefixtures("layout")
def test_a_session_that_is_not_stored_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert why.main("why", ["s-2"]) == 1
    assert capsys.readouterr().err == "openmem-context: no session 's-2' is stored\n"


@pytest.mark.parametrize("words", [[], ["a", "b"], ["--all"], ["a/b"]])
def test_words_that_are_none_of_ours_are_refused(words: list[str]) -> None:
    assert why.main("why", words) == 2
