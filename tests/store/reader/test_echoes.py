"""What counts as our own answer, seen again."""

from pathlib import Path

import apsw
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import echoes, source

from tests.store.reader.conversation import called, replied, returned, said, store

ANSWER = '{"note":"' + echoes.ANSWER_MARKER + '","results":[{"excerpt":"the harbour"}]}'


def prepared(database: Path) -> tuple[echoes.Echoes, list[tuple[int, str]], list[str]]:
    """Return the echoes of a database and what its two views show."""
    with source.opened(database) as connection:
        found = echoes.prepare(connection)
        messages = list(connection.execute("SELECT seq, text FROM source_messages ORDER BY seq"))
        lines = [text for (text,) in connection.execute("SELECT text FROM source_lines ORDER BY id")]
    return found, messages, lines


def test_calls_and_results_of_our_tools_are_echoes(layout: Layout) -> None:
    database = store(
        layout,
        "s",
        said("find the harbour"),
        called("mcp__openmem__smart_compact_search", '{"query":"harbour"}'),
        returned("mcp__openmem__smart_compact_search", ANSWER),
        replied("it is there"),
    )
    found, messages, lines = prepared(database)
    assert found.rows == {2, 3}
    assert [seq for seq, _ in messages] == [1, 4]
    assert lines == ["find the harbour", "it is there"]


def test_a_call_that_reaches_our_tool_through_code_is_an_echo(layout: Layout) -> None:
    database = store(
        layout,
        "s",
        said("smart_compact_search is a tool"),
        called("exec", "await tools.smart_compact_search({query: 'x'})"),
        returned("exec", "smart compact cars"),
    )
    assert prepared(database)[0].rows == {2}


def test_of_a_mixed_result_only_our_answer_is_left_out(layout: Layout) -> None:
    database = store(layout, "s", returned("exec", f"before\n{ANSWER}\nafter"))
    found, messages, lines = prepared(database)
    assert found == echoes.Echoes(frozenset(), {1: frozenset({2})})
    assert messages == [(1, "before\nafter")]
    assert lines == ["before", "after"]


def test_an_answer_printed_over_many_lines_is_left_out_to_the_end(layout: Layout) -> None:
    printed = f'before\n{{\n  "note": "{echoes.ANSWER_MARKER}",\n  "results": [\n    "the harbour"\n  ]\n}}'
    assert prepared(store(layout, "s", returned("exec", printed)))[2] == ["before", "{"]


def test_an_answer_quoted_once_more_is_recognised(layout: Layout) -> None:
    quoted = ANSWER.replace('"', '\\"')
    assert prepared(store(layout, "s", returned("exec", f'before\n["{quoted}"]\nafter')))[2] == ["before", "after"]


def test_a_row_that_is_only_our_answer_is_left_out_whole(layout: Layout) -> None:
    assert prepared(store(layout, "s", returned("exec", ANSWER)))[0] == echoes.Echoes(frozenset({1}), {})


def test_words_of_the_marker_alone_are_no_echo(layout: Layout) -> None:
    database = store(layout, "s", said("openmem answer past data"))
    assert prepared(database)[0] == echoes.NO_ECHOES


def test_what_tells_by_its_text_is_known_without_the_names(layout: Layout) -> None:
    database = store(
        layout,
        "s",
        called("mcp__openmem__smart_compact_search", '{"query":"harbour"}'),
        returned("mcp__openmem__smart_compact_search", "query is empty"),
        called("exec", "await tools.smart_compact_search({query: 'x'})"),
        returned("exec", f"before\n{ANSWER}"),
        returned("exec", ANSWER),
    )
    with source.opened(database) as connection:
        assert echoes.content(connection) == echoes.Echoes(frozenset({3, 5}), {4: frozenset({2})})
    assert prepared(database)[0].rows == {1, 2, 3, 5}


def test_preparing_changes_no_byte_of_the_session_file(layout: Layout) -> None:
    database = store(layout, "s", said("a"), returned("exec", f"b\n{ANSWER}"))
    before = database.read_bytes()
    prepared(database)
    assert database.read_bytes() == before
    with source.opened(database) as connection, pytest.raises(apsw.ReadOnlyError):
        connection.execute("DELETE FROM messages")
