"""Searches by words and vectors: what is found, what the answer says, and what happens without a model."""

import threading
from pathlib import Path

import msgspec
import pytest
from openmem_store.layout import Layout
from openmem_store.missing import Progress
from openmem_store.reader import search
from openmem_store.reader.hybrid import Hybrid
from openmem_store.reader.results import Answer
from openmem_store.reader.scope import Scope
from openmem_store.reader.sessions import Sessions
from openmem_store.settings import Settings

from tests.store.reader.conversation import replied, returned, said, store
from tests.store.reader.embedded import EAST, NORTH, UP, Known, answering, embed

QUERY = "when do ships leave"
CLOSE = (0.9, 0.1, 0.0)
FILLER = [said(f"the baker sold loaf number {number}") for number in range(30)]


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    made = Known({QUERY: EAST, "loaf": EAST, "ships": EAST})
    answering(monkeypatch, m=made, other=made)
    return made


def hybrid(layout: Layout, model: str = "m", patience_s: float = 20.0) -> Hybrid:
    return Hybrid(Settings(root=layout.root, embedding_model=model), patience_s=patience_s)


def ask(query: str, kept: Hybrid | None, *databases: Path, **more: object) -> Answer:
    chosen = {"scope": Scope(("user", "tool"), None, include_echoes=False), "limit": 8, **more}
    request = search.Request(**chosen)  # type: ignore[arg-type]
    return search.search(query, request, {path.stem: path for path in databases}, why="w", hybrid=kept)


def harbour(layout: Layout, sid: str = "s") -> Path:
    """Return a session in which only the vectors know the answer: row 31."""
    path = store(layout, sid, *FILLER, said("boats must be gone before noon"), *FILLER)
    return embed(path, {seq: CLOSE if seq == 31 else NORTH if seq % 2 else UP for seq in range(1, 62)})


def test_a_row_that_shares_no_word_is_found_by_its_meaning(layout: Layout, known: Known) -> None:
    answer = ask(QUERY, hybrid(layout), harbour(layout))
    first = answer.results[0]
    assert answer.mode == "hybrid"
    assert (first.seq, first.matched_terms, first.excerpt) == (31, 0, "boats must be gone before noon")
    assert first.similarity == pytest.approx(0.994, abs=1e-3)
    assert (answer.total_matches, answer.line_matches) == (0, 0), "counts are of words alone"
    assert answer.vectors == Progress(filled=61)
    assert (answer.embedding_error, known.asked) == (None, [QUERY])


def test_a_file_that_stays_open_answers_as_one_that_is_opened(layout: Layout, known: Known) -> None:
    path, kept, sessions = harbour(layout), hybrid(layout), Sessions(layout.sessions, idle_seconds=3600.0)
    request = search.Request(Scope(("user", "tool"), None, include_echoes=False), 8)
    for _ in range(2):
        answer = search.search(QUERY, request, {"s": path}, why="w", hybrid=kept, opened=sessions.opened)
        assert answer == ask(QUERY, kept, path)
    sessions.close()


def test_a_row_that_holds_the_words_leads_over_one_that_is_only_near(layout: Layout, known: Known) -> None:
    path = store(layout, "s", *FILLER, said("when do ships leave: at ten"), *FILLER, said("boats go at ten"), *FILLER)
    embed(path, {31: (0.8, 0.3, 0.0), 62: (0.8, 0.3, 0.0), **dict.fromkeys((*range(1, 31), *range(32, 62)), NORTH)})
    answer = ask(QUERY, hybrid(layout), path)
    assert [(result.seq, result.matched_terms) for result in answer.results[:2]] == [(31, 4), (62, 0)]
    assert answer.total_matches == 1


@pytest.mark.parametrize("mode", [None, "hybrid"])
def test_contract_merges_both_orders_by_reciprocal_ranks(layout: Layout, known: Known, mode: str | None) -> None:
    path = store(layout, "s", said("ships"), said("ships ships"), said("x"), said("y"))
    embed(path, {1: UP, 2: NORTH, 3: EAST, 4: CLOSE})
    answer = ask("ships", hybrid(layout), path, ranking="contract", mode=mode)
    # By words 2, 1; by vectors 3, 4, then 1 and 2 in either order: 1/61 + 1/63 or 64, 1/62 + 1/64 or 63, 1/61, 1/62.
    assert [result.seq for result in answer.results] == [2, 1, 3, 4]
    assert [result.matched_terms for result in answer.results] == [1, 1, 0, 0]
    assert all(result.similarity is not None for result in answer.results)


def test_lexical_mode_asks_no_model_and_still_tells_the_progress(layout: Layout, known: Known) -> None:
    answer = ask(QUERY, hybrid(layout), harbour(layout), mode="lexical")
    assert (answer.mode, answer.results, known.asked) == ("lexical", (), [])
    assert answer.vectors == Progress(filled=61)


@pytest.mark.parametrize("query", ["", "  "])
def test_an_empty_query_asks_no_model(layout: Layout, known: Known, query: str) -> None:
    answer = ask(query, hybrid(layout), harbour(layout))
    assert (answer.mode, answer.results, known.asked) == ("lexical", (), [])


def test_without_vectors_and_without_a_model_nothing_is_said_of_them(layout: Layout, known: Known) -> None:
    path = store(layout, "s", said("ships"))
    answer = ask("ships", hybrid(layout, model=""), path)
    assert answer == ask("ships", None, path)
    shown = msgspec.to_builtins(answer)
    assert not {"vectors", "embedding_error"} & shown.keys()
    assert "similarity" not in shown["results"][0]


def test_with_a_model_and_without_vectors_the_progress_is_told(layout: Layout, known: Known) -> None:
    answer = ask("ships", hybrid(layout), store(layout, "s", said("ships"), said(" ")))
    assert (answer.mode, answer.vectors, known.asked) == ("lexical", Progress(pending=1), [])
    assert len(answer.results) == 1


def test_the_model_is_the_configured_one_where_it_has_vectors_else_the_one_with_most(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {name: Known({"x": EAST}) for name in ("m", "big", "small")}
    answering(monkeypatch, **models)
    path = store(layout, "s", said("a"), said("b"), said("c"))
    embed(path, {1: EAST, 2: EAST, 3: EAST}, model="big")
    embed(path, {1: EAST}, model="small")
    assert ask("x", hybrid(layout, "small"), path).vectors == Progress(filled=1, pending=2)
    assert [len(known.asked) for known in models.values()] == [0, 0, 1]
    assert ask("x", hybrid(layout, "m"), path).vectors == Progress(filled=3)
    assert ask("x", hybrid(layout, ""), path).mode == "hybrid"
    assert [len(known.asked) for known in models.values()] == [0, 2, 1]


def test_a_model_that_fails_leaves_the_words(layout: Layout, known: Known) -> None:
    known.error = ValueError("secret")
    answer = ask("loaf", hybrid(layout), harbour(layout))
    assert (answer.mode, len(answer.results)) == ("lexical", 8)
    assert answer.embedding_error == "the embedding model failed (ValueError)"


def test_a_cold_model_is_not_waited_for_and_warm_for_the_next_search(layout: Layout, known: Known) -> None:
    known.go = threading.Event()
    kept = hybrid(layout, patience_s=0.0)
    path = harbour(layout)
    answer = ask("loaf", kept, path)
    assert (answer.mode, len(answer.results)) == ("lexical", 8)
    assert answer.embedding_error is not None
    assert answer.embedding_error.startswith("the embedding model did not answer within")
    known.go.set()
    assert ask("loaf", hybrid(layout), path).mode == "hybrid"


def test_sessions_with_and_without_vectors_are_merged(layout: Layout, known: Known) -> None:
    without = store(layout, "words", said("ships leave at nine"), *FILLER)
    for ranking in ("best", "contract"):
        known.asked.clear()
        answer = ask(QUERY, hybrid(layout), harbour(layout), without, ranking=ranking)
        found = {(result.session_id, result.seq) for result in answer.results}
        assert {("s", 31), ("words", 1)} <= found, ranking
        assert answer.vectors == Progress(filled=61, pending=31)
        assert known.asked == [QUERY], "each model is asked once"


def test_filters_hold_for_both_sides(layout: Layout, known: Known) -> None:
    path = store(layout, "s", said("ships"), replied("boats"), returned("Bash", "boats"), said("z"), dropped=[0, 1, 2])
    embed(path, {1: NORTH, 2: EAST, 3: CLOSE, 4: EAST})
    scope = Scope(("user", "tool"), False, include_echoes=False)
    assert sorted(result.seq for result in ask("ships", hybrid(layout), path, scope=scope).results) == [1, 3]


def test_a_session_whose_vectors_cannot_be_read_is_skipped_and_the_others_are_not(layout: Layout, known: Known) -> None:
    good = harbour(layout, "good")
    bad = layout.database("bad")
    bad.write_bytes(b"no database at all " * 300)
    answer = ask(QUERY, hybrid(layout), bad, good)
    assert answer.skipped == {"bad": "damaged"}
    assert answer.results[0].seq == 31
