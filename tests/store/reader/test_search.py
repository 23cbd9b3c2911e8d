"""A search over words: hits and counts of one or several sessions."""

import random
from pathlib import Path

import apsw
import msgspec
import pytest
from openmem_store.layout import Layout
from openmem_store.reader import results, scope, search
from openmem_store.reader.answers import MOST_WEIGHT, weight
from openmem_store.reader.echoes import ANSWER_MARKER

from tests.store.reader.conversation import called, replied, returned, said, store

DEFAULT = scope.Scope(("user", "tool"), None, include_echoes=False)


def ask(
    query: str, *databases: Path, chosen: scope.Scope = DEFAULT, limit: int = 8, context: int = 0, ranking: str = "best"
) -> results.Answer:
    request = search.Request(chosen, limit, context, ranking)
    return search.search(query, request, {path.stem: path for path in databases}, why="test")


def seqs(answer: results.Answer) -> list[int]:
    return [result.seq for result in answer.results]


@pytest.mark.parametrize("ranking", ["best", "contract"])
def test_counts_are_exact_whatever_the_order_and_limit(layout: Layout, ranking: str) -> None:
    """Rows hold any word, lines all of them; checked against plain Python."""
    source = random.Random(7)
    texts = [
        "\n".join(" ".join(source.choices(["red", "blue", "fish", "bird", "tree"], k=3)) for _ in range(4))
        for _ in range(60)
    ]
    database = store(layout, "s", *(said(text) for text in texts))
    answer = ask("red fish", database, limit=3, ranking=ranking)
    assert answer.total_matches == sum("red" in text or "fish" in text for text in texts)
    lines = [line for text in texts for line in text.split("\n")]
    assert answer.line_matches == sum("red" in line and "fish" in line for line in lines)
    assert len(answer.results) == 3


@pytest.mark.parametrize("query", ["needle", "设备设备", "needles 设备设备"])
def test_a_session_with_a_run_too_long_for_the_index_is_searched(layout: Layout, query: str) -> None:
    answer = ask(query, store(layout, "s", returned("Bash", "needle 设备" + "设备" * 6000)))
    assert (answer.total_matches, answer.skipped) == (1, {})


def test_a_result_says_where_it_is_from(layout: Layout) -> None:
    database = store(layout, "s", said("task"), returned("Bash", "KEY-7 is red"), dropped=[1], blobs={1: "0" * 16})
    (result,) = ask("key red absent", database).results
    assert msgspec.structs.asdict(result) | {"thread": "", "created_at": ""} == {
        "session_id": "s", "seq": 2, "role": "tool", "kind": "tool_result", "in_context": False, "thread": "",
        "created_at": "", "excerpt": "KEY-7 is red", "name": "Bash", "matched_terms": 2, "matching_lines": None,
        "similarity": None, "newer_matches": None, "blob_ids": ("0" * 16,), "before": (), "after": (),
    }  # fmt: skip


def test_line_matches_are_broken_down_by_their_origin(layout: Layout) -> None:
    """So an agent sees when its own question is in the count."""
    database = store(
        layout,
        "s",
        said("Count [ERROR] lines of billing, like\n[ERROR] billing x"),
        replied("ok"),
        said("[ERROR] billing 1\n[ERROR] billing 2"),
        returned("Bash", "[ERROR] billing 3"),
        said("How many [ERROR] lines are from billing?"),
    )
    answer = ask("[ERROR] billing", database)
    assert answer.line_matches == 6
    assert answer.line_matches_by == {
        "user": 2,
        "user, first turn": 2,
        "tool result Bash": 1,
        "user, questions": 1,
    }


def test_our_own_answers_are_in_no_figure(layout: Layout) -> None:
    answer_text = '{"note":"' + ANSWER_MARKER + '","results":["harbour"]}'
    database = store(
        layout,
        "s",
        said("harbour"),
        called("mcp__openmem__smart_compact_search", '{"query":"harbour"}'),
        returned("mcp__openmem__smart_compact_search", answer_text),
        returned("exec", f"no such place\n{answer_text}"),
        returned("exec", f"harbour\n{answer_text}"),
    )
    everything = scope.Scope(("user", "assistant", "tool"), None, include_echoes=False)
    answer = ask("harbour", database, chosen=everything)
    assert (answer.total_matches, answer.line_matches, answer.echoes_excluded) == (2, 2, 2)
    assert sorted(seqs(answer)) == [1, 5]
    assert next(result for result in answer.results if result.seq == 5).excerpt == "1: harbour"
    shown = ask("harbour", database, chosen=scope.Scope(everything.roles, None, include_echoes=True))
    assert (shown.total_matches, shown.line_matches, shown.echoes_excluded) == (5, 6, 0)


def test_the_newest_value_of_a_key_leads_and_older_ones_say_so(layout: Layout) -> None:
    batches = ["\n".join(f"SET K{n} = v{batch}" for n in range(100)) for batch in range(3)]
    answer = ask("K42", store(layout, "s", *map(said, batches)))
    assert [(result.seq, result.newer_matches) for result in answer.results] == [(3, None), (2, 1), (1, 2)]
    assert answer.results[0].excerpt == "43: SET K42 = v2"


def test_neighbours_are_rows_of_the_same_thread(layout: Layout) -> None:
    store(layout, "s", said("main"), replied("one"), said("needle"), replied("two"), said("last"))
    database = store(layout, "s", said("another agent"), replied("other"))
    (result,) = ask("needle", database, context=1).results
    assert [row.text for row in result.before] == ["one"]
    assert [row.text for row in result.after] == ["two"]
    (result,) = ask("needle", database, context=5).results
    assert [row.text for row in (*result.before, *result.after)] == ["main", "one", "two", "last"]


def test_sessions_are_merged_and_the_last_written_wins_between_equals(layout: Layout) -> None:
    databases = [store(layout, sid, said("needle in here"), replied("ok")) for sid in ("newest", "older")]
    answer = ask("needle", *databases)
    assert [result.session_id for result in answer.results] == ["newest", "older"]
    assert answer.total_matches == 2
    assert answer.databases == {path.stem: str(path) for path in databases}


def test_a_session_that_cannot_be_read_is_named_and_the_others_are_searched(layout: Layout) -> None:
    good = store(layout, "good", said("needle"))
    bad = layout.database("bad")
    bad.write_bytes(b"this is no database, it is text " * 200)
    answer = ask("needle", bad, good)
    assert answer.skipped == {"bad": "damaged"}
    assert [result.session_id for result in answer.results] == ["good"]


DANGLING = (
    "INSERT INTO messages_fts(rowid, text) VALUES (999, 'needle')",
    "DELETE FROM messages WHERE seq = 2",
)
"""Leave an index with a row that the table does not have, which SQLite calls sound."""


@pytest.mark.parametrize("statement", DANGLING)
def test_a_session_whose_index_names_no_row_is_named_and_the_others_are_searched(
    layout: Layout, statement: str
) -> None:
    sound, dangling = store(layout, "sound", said("a needle")), store(layout, "dangling", said("hay"), said("needle"))
    with apsw.Connection(str(dangling)) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
        connection.execute(statement)
    connection.close()
    answer = ask("needle", dangling, sound)
    assert (answer.total_matches, seqs(answer), answer.skipped) == (1, [1], {"dangling": "damaged"})


def test_rows_found_by_another_ending_match_no_word(layout: Layout) -> None:
    answer = ask("deploying", store(layout, "s", said("it was deployed " + "x" * 1000)))
    assert (answer.total_matches, answer.results[0].matched_terms) == (0, 0)
    assert answer.related == {"deploying": ("deployed",)}
    assert "deployed" in answer.results[0].excerpt


def test_an_empty_query_finds_nothing_and_says_what_to_give(layout: Layout) -> None:
    answer = ask("  ", store(layout, "s", said("x")))
    assert (answer.total_matches, answer.results, answer.hint) == (0, (), "query is empty: give words, or a pattern")


def test_a_long_answer_stays_within_its_size(layout: Layout) -> None:
    drafts = [said("\n".join(f"needle {n} {'木' * 300}" for n in range(20))) for _ in range(60)]
    answer = ask("needle", store(layout, "s", *drafts), limit=50, context=5)
    assert answer.total_matches == 60
    assert 1 < len(answer.results) < 50
    assert weight(msgspec.json.encode(answer.results).decode()) <= MOST_WEIGHT + 1000
    assert answer.hint is not None
    assert answer.hint.startswith(f"the answer was full after {len(answer.results)} of 50 rows")


def test_filters_narrow_hits_and_counts_alike(layout: Layout) -> None:
    database = store(layout, "s", said("needle"), replied("needle"), said("needle\nneedle"), dropped=[0, 1])
    out = ask("needle", database, chosen=scope.Scope(("user", "assistant"), False, include_echoes=False))
    assert (out.total_matches, out.line_matches, sorted(seqs(out))) == (2, 2, [1, 2])


@pytest.mark.parametrize(
    ("query", "seqs", "lines"),
    [
        ("gen", [2, 1], 2),
        ("itgc", [2, 1], 2),
        ("db", [6, 5, 4, 2], 4),
        ("gen db", [2, 6, 5, 4, 1], 1),
        ("GEN", [2, 1], 2),
    ],
)
def test_an_id_inside_a_sentence_without_spaces_counts_beside_one_that_stands_alone(
    layout: Layout, query: str, seqs: list[int], lines: int
) -> None:
    database = store(
        layout,
        "s",
        said("步骤2重跑gen-itgc后检查 设备清单"),
        said("gen is a word, db too, itgc"),
        said("generation, adbc"),
        said("v2重跑db检查"),
        said("สวัสดีชาวโลกdb"),
        said("データベースdb接続\nxdb接"),
    )
    answer = ask(query, database)
    assert sorted(result.seq for result in answer.results) == sorted(seqs)
    assert (answer.total_matches, answer.line_matches) == (len(seqs), lines)
