"""A search for a regular expression."""

from collections.abc import Callable
from pathlib import Path

import pytest
from openmem_store.layout import Layout
from openmem_store.reader import child, pattern, results, scope
from openmem_store.reader.answers import RefusedError
from openmem_store.reader.echoes import ANSWER_MARKER
from openmem_store.reader.search import Request

from tests.store.reader.conversation import called, replied, returned, said, store

DEFAULT = scope.Scope(("user", "tool"), None, include_echoes=False)


async def ask(expression: str, *databases: Path, chosen: scope.Scope = DEFAULT, limit: int = 8) -> results.Answer:
    return await pattern.search(expression, Request(chosen, limit), {path.stem: path for path in databases}, why="test")


async def test_lines_are_counted_as_grep_counts_them(layout: Layout) -> None:
    rows = ["SET K1 = a\nSET K2 = b\nGET K1", "xSET K1 = c\nSET K1 = d SET K1 = e", "SET K1 = f\r\nSET K1 ="]
    answer = await ask(r"^SET K1 = \w", store(layout, "s", *map(said, rows)))
    assert (answer.total_matches, answer.line_matches) == (3, 3)
    assert answer.line_matches_by == {"user, first turn": 3}


async def test_an_end_of_line_is_one_with_and_without_a_carriage_return(layout: Layout) -> None:
    answer = await ask("^ab$", store(layout, "s", said("ab\nab\r\nabc\nab")))
    assert answer.line_matches == 3


@pytest.mark.parametrize(
    ("expression", "text", "matches"),
    [
        (r"(?<year>\d{4})-\k<year>", "2020-2020", True),
        (r"(?<=a)b", "ab", True),
        (r"a(?!b)", "ab", False),
        (r"\d", "٣", False),
        (r"(?i:HARBOUR)", "harbour", True),
        (r"\u0041", "A", True),
        (r"a{,3}", "a{,3}", True),
        (r"[^]", "x", True),
        (r"é+$", "caféé", True),
    ],
)
async def test_the_syntax_is_that_of_javascript(layout: Layout, expression: str, text: str, matches: bool) -> None:
    answer = await ask(expression, store(layout, "s", said(text)))
    assert answer.total_matches == int(matches)


@pytest.mark.parametrize(
    ("expression", "lines"),
    [
        (r"^\p{Lu}\p{L}+$", 2),
        (r"\p{Script=Han}", 1),
        (r"^[\p{Script=Greek}\d]+$", 2),
        (r"^\P{L}+$", 1),
        (r"^\p{L}+\.\p{L}+$", 1),
        (r"\\p{L}", 1),  # a backslash, then these letters
        (r"\p{2}", 1),  # the letter, twice
    ],
)
async def test_properties_of_characters_are_looked_for(layout: Layout, expression: str, lines: int) -> None:
    rows = ["Éclair\nÜber\n木\nαβγ1", "123\na.b\n\\p{L}", "app"]
    answer = await ask(expression, store(layout, "s", *map(said, rows)))
    assert answer.line_matches == lines


async def test_a_row_that_matches_only_across_lines_is_a_row_and_no_line(layout: Layout) -> None:
    answer = await ask(r"one\ntwo", store(layout, "s", said("one\ntwo")))
    assert (answer.total_matches, answer.line_matches) == (1, 0)


async def test_the_newest_rows_come_first_with_their_last_lines(layout: Layout) -> None:
    batches = ["\n".join(f"SET K{n % 50} = v{batch}-{n}" for n in range(100)) for batch in range(4)]
    answer = await ask("^SET K7 = ", store(layout, "s", *map(said, batches)), limit=2)
    assert [(result.seq, result.newer_matches) for result in answer.results] == [(4, None), (3, 1)]
    assert answer.results[0].excerpt == "8: SET K7 = v3-7\n58: SET K7 = v3-57"
    assert (answer.results[0].matching_lines, answer.line_matches) == (2, 8)


async def test_an_excerpt_is_centred_on_the_match_in_code_points(layout: Layout) -> None:
    text = "é" * 3000 + "NEEDLE" + "木" * 3000
    answer = await ask("NEEDLE", store(layout, "s", said(text)))
    assert "éNEEDLE木" in answer.results[0].excerpt


async def test_our_own_answers_are_in_no_figure(layout: Layout) -> None:
    database = store(
        layout,
        "s",
        said("needle"),
        called("smart_compact_search", '{"pattern":"needle"}'),
        returned("smart_compact_search", "needle"),
        returned("exec", 'a\n{"note":"' + ANSWER_MARKER + ' needle"}'),
    )
    answer = await ask("needle", database)
    assert (answer.total_matches, answer.line_matches, answer.echoes_excluded) == (1, 1, 1)


async def test_filters_and_several_sessions(layout: Layout) -> None:
    one = store(layout, "one", said("needle"), replied("needle"), dropped=[0])
    two = store(layout, "two", said("needle"))
    both = await ask("needle", one, two, chosen=scope.Scope(("user",), None, include_echoes=False))
    assert [result.session_id for result in both.results] == ["one", "two"]
    out = await ask("needle", one, two, chosen=scope.Scope(("user",), False, include_echoes=False))
    assert [result.session_id for result in out.results] == ["one"]


async def test_a_session_that_cannot_be_read_is_named(layout: Layout) -> None:
    good, bad = store(layout, "good", said("needle")), layout.database("bad")
    bad.write_bytes(b"this is no database, it is text " * 200)
    answer = await ask("needle", bad, good)
    assert (answer.skipped, answer.total_matches) == ({"bad": "damaged"}, 1)


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|a)*b", "(a*)*b", "(.*)*z"])
async def test_endless_backtracking_ends_and_what_was_counted_stands(layout: Layout, expression: str) -> None:
    database = store(layout, "s", said("a" * 60 + "!"), said("ab z"))
    answer = await ask(expression, database)
    assert answer.timed_out
    assert answer.hint is not None
    assert answer.hint.startswith("stopped after 1 s: the counts are of the newest rows only")
    assert (await ask("ab z", database)).total_matches == 1


@pytest.mark.parametrize(
    ("expression", "cause"),
    [
        ("(", "expression: Unbalanced parenthesis at character 1, where '(' begins, in '('. "),
        ("(?P<n>a)", "Invalid group modifier at character 1, where"),
        ("é😀[z-a]", "greater than end char code at character 4, where 'z-a]' begins, in 'é😀[z-a]'. "),
        ("*a", "Invalid atom character at character 1, where"),
        ("x" * 201, "at most 200 characters, this one has 201"),
    ],
)
async def test_a_pattern_that_does_not_compile_is_refused_with_its_cause(expression: str, cause: str) -> None:
    with pytest.raises(RefusedError, match="pattern") as refusal:
        await ask(expression)
    assert cause in str(refusal.value)


@pytest.mark.parametrize(
    ("expression", "text", "matches"),
    [
        (r"^.$", "😀", True),  # two characters without the u flag
        (r"^\u{1F600}$", "😀", True),  # 1F600 times the letter u without it
        (r"^\b+a", "a", True),  # nothing to repeat
        (r"(?i:A)", "a", True),  # since ES2025
        (r"^(?:(?<n>a)|(?<n>b))$", "b", True),  # since ES2025
    ],
)
async def test_the_differences_to_a_browsers_engine_are_these(
    layout: Layout, expression: str, text: str, matches: bool
) -> None:
    answer = await ask(expression, store(layout, "s", said(text)))
    assert answer.total_matches == int(matches)


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (r"^\p{Foo}$", r"Invalid property name at character 2, where '\\p{Foo}$' begins"),
        (r"[\p{L}\p{Foo}]", r"Invalid property name at character 7, where '\\p{Foo}]' begins"),
        (r"\-\p{L}", r"Invalid character escape at character 1, where '\\-\\p{L}' begins"),
        (r"\p{L}(", r"Unbalanced parenthesis at character 6, where '(' begins"),
    ],
)
async def test_a_pattern_with_properties_is_refused_where_it_is_wrong(expression: str, said: str) -> None:
    with pytest.raises(RefusedError) as refusal:
        await ask(expression)
    assert said in str(refusal.value)


async def test_the_longest_pattern_is_allowed(layout: Layout) -> None:
    assert (await ask("x" * 200, store(layout, "s", said("x" * 200)))).total_matches == 1


async def test_text_of_every_kind_is_scanned(layout: Layout) -> None:
    database = store(layout, "s", said("before\0needle"), said("木needle"), said("\u2028needle"))
    assert (await ask("needle$", database)).total_matches == 3


def behind(change: Callable[[], object], *, before: bool) -> child.Run:
    """Return what does a job in a child, and `change` just before it or just after."""

    async def do(module: str, job: bytes, *, seconds: float) -> child.Outcome:
        if before:
            change()
        outcome = await child.run(module, job, seconds=seconds)
        if not before:
            change()
        return outcome

    return do


@pytest.mark.parametrize("before", [True, False])
async def test_a_session_that_is_deleted_meanwhile_takes_no_other_along(layout: Layout, before: bool) -> None:
    going, staying = store(layout, "going", said("needle")), store(layout, "staying", said("needle"))
    answer = await pattern.search(
        "needle",
        Request(DEFAULT, 8),
        {"going": going, "staying": staying},
        why="test",
        do=behind(going.unlink, before=before),
    )
    assert answer.skipped == {"going": "not readable (CantOpenError)"}
    assert [result.session_id for result in answer.results] == ["staying"]


async def test_a_session_that_is_begun_anew_meanwhile_takes_no_other_along(layout: Layout) -> None:
    going, staying = store(layout, "going", said("x"), said("needle")), store(layout, "staying", said("needle"))

    def begun_anew() -> None:
        for path in going.parent.glob("going.db*"):
            path.unlink()
        store(layout, "going", said("another"))

    answer = await pattern.search(
        "needle",
        Request(DEFAULT, 8),
        {"going": going, "staying": staying},
        why="test",
        do=behind(begun_anew, before=False),
    )
    assert answer.skipped == {"going": "replaced while it was searched; try again"}
    assert [result.session_id for result in answer.results] == ["staying"]
