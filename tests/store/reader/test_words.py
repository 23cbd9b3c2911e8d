"""What the words of a query mean to the index."""

from pathlib import Path

import apsw
import pytest
from openmem_store import schema
from openmem_store.layout import Layout
from openmem_store.reader import source, words

from tests.store.reader.conversation import said, store

ODD = (
    "multi-agent", "toolu_01AB-9", "src/a.py", "don't", '"', "*", "a:b", "NEAR(", "AND", "x AND", "()", "", "   ",
    "{a b}:c", "^x", "🌤", "x" * 5000, "word " * 1000, "a OR 1", "a\0b", "\ud800", "--", "'; DROP TABLE messages", "-x",
    "NOT", "(a", 'a"b', "+", "col:val*", "\\", "日本", "a" + "\u0301",
)  # fmt: skip
"""Ordinary text that is syntax to FTS5, or no word at all."""


@pytest.mark.parametrize("query", ODD)
def test_any_text_is_a_legal_query(layout: Layout, query: str) -> None:
    database = store(layout, "s", said("nothing of the kind"))
    with source.opened(database) as connection:
        found = [words.find(connection, word) for word in words.parse(query, words.Tokenizer(connection))]
        words.line_counts(connection, found, {1}, {1: {1}})


@pytest.mark.parametrize("text", ["multi-agent", "toolu_01AB-9", "src/a.py", "don't", "C++", "--flag", "🌤", "()", "*"])
def test_a_row_is_found_by_the_text_it_holds(layout: Layout, text: str) -> None:
    database = store(layout, "s", said("other words"), said(f"here it is: {text} and more"))
    with source.opened(database) as connection:
        (word,) = words.parse(text, words.Tokenizer(connection))
        assert words.find(connection, word).seqs == {2}


@pytest.mark.parametrize("query", ["设备", "设备清单", "itgc", "gen", "ITGC", "db", "検索", "검색", "重跑"])
def test_words_inside_an_unspaced_run_are_found(layout: Layout, query: str) -> None:
    """Two characters are enough, and an id written onto such a run is found too."""
    row = "步骤2重跑gen-itgc后检查 设备清单 日本語検索 한국어검색 数据db库"
    database = store(layout, "s", said("plain words"), said(row))
    with source.opened(database) as connection:
        (word,) = words.parse(query, words.Tokenizer(connection))
        found = words.find(connection, word)
        assert found.seqs == {2}
        assert words.line_counts(connection, [found], {1, 2}, {}) == {2: 1}


@pytest.mark.parametrize(
    ("query", "text"),
    [("設備-一覧", "x\n設備 一覧\n設備\n一覧"), ("über設備", "ÜBER設備\nuber設備"), ("KEY＿17", "KEY_17 = 1\nKEY 17")],
)
def test_a_row_that_tokens_find_has_the_lines_that_tokens_find(layout: Layout, query: str, text: str) -> None:
    with source.opened(store(layout, "s", said(text))) as connection:
        (word,) = words.parse(query, words.Tokenizer(connection))
        found = words.find(connection, word)
        lines = connection.execute("SELECT count(*) FROM lines_fts WHERE lines_fts MATCH ?", (word.phrase,)).get
        assert words.line_counts(connection, [found], {1}, {}) == {1: lines}
        assert lines


def test_matching_ignores_case_and_diacritics(layout: Layout) -> None:
    database = store(layout, "s", said("The CAFÉ is open"))
    with source.opened(database) as connection:
        (word,) = words.parse("cafe", words.Tokenizer(connection))
        assert words.find(connection, word).seqs == {1}


def test_text_behind_a_nul_is_found(layout: Layout) -> None:
    database = store(layout, "s", said("before\0 KEY-7 ~~~ end"))
    with source.opened(database) as connection:
        for word in words.parse("KEY-7 ~~~", words.Tokenizer(connection)):
            assert words.find(connection, word).seqs == {1}


def test_all_words_together_are_found_as_each_alone(layout: Layout) -> None:
    texts = ("Alpha -- beta", "\0 --", "木の家 alpha", "nothing", "ALPHA-beta é")
    with source.opened(store(layout, "s", *map(said, texts))) as connection:
        asked = words.parse("alpha -- 木 zzz É 家 beta", words.Tokenizer(connection))
        assert words.find_all(connection, asked) == [words.find(connection, word) for word in asked]
        assert [sorted(found.seqs) for found in words.find_all(connection, asked)] == [
            [1, 3, 5], [1, 2], [3], [], [5], [3], [1, 5],
        ]  # fmt: skip


def test_a_word_said_twice_counts_once() -> None:
    connection = apsw.Connection(":memory:")
    parsed = words.parse("Key-7 key 7 key-7", words.Tokenizer(connection))
    assert [word.text for word in parsed] == ["Key-7", "key", "7"]
    assert words.parse("x" * 20_000, words.Tokenizer(connection))[0].text == "x" * words.MOST_CHARACTERS
    assert len(words.parse(" ".join(map(str, range(200))), words.Tokenizer(connection))) == words.MOST_WORDS


def test_a_line_counts_when_it_holds_every_word(layout: Layout) -> None:
    database = store(layout, "s", said("red fish\nblue fish\nred 设备清单 fish"), said("red"), said("fish"))
    with source.opened(database) as connection:

        def counts(query: str, among: set[int] = {1, 2, 3}, without: dict[int, set[int]] = {}) -> dict[int, int]:  # noqa: B006, never changed
            found = [words.find(connection, word) for word in words.parse(query, words.Tokenizer(connection))]
            return words.line_counts(connection, found, among, without)

        assert counts("red fish") == {1: 2}
        assert counts("fish") == {1: 3, 3: 1}
        assert counts("fish", {1}) == {1: 3}
        assert counts("fish", without={1: {2}, 3: {1}}) == {1: 2}
        assert counts("fish 设备") == {1: 1}
        assert counts("fish 设备", without={1: {3}}) == {}
        assert counts("设备 清单") == {1: 1}
        assert counts("red absent") == {}
        assert counts("") == {}


def test_many_lines_in_few_rows_are_counted_the_same_way_wherever_their_ids_lie(layout: Layout) -> None:
    """A writer gives a row's lines one run of ids; counting by the runs must not be a condition."""
    database = store(layout, "s", *(said("\n".join(["red fish", "blue", "red"] * 10)) for _ in range(3)))
    by_runs = _counts(database, "red")
    assert by_runs == {1: 20, 2: 20, 3: 20}
    connection = schema.open_writer(database)
    connection.execute("UPDATE lines SET id = id + 1000 WHERE line_no = 1 AND message_seq = 2")
    connection.execute("INSERT INTO lines_fts(lines_fts) VALUES ('rebuild')")
    connection.close()
    assert _counts(database, "red") == by_runs


def _counts(database: Path, query: str) -> dict[int, int]:
    with source.opened(database) as connection:
        found = [words.find(connection, word) for word in words.parse(query, words.Tokenizer(connection))]
        return words.line_counts(connection, found, {1, 2, 3}, {})
