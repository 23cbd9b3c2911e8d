"""The order of the rows that match."""

import pytest
from openmem_store.layout import Layout
from openmem_store.reader import ranking, scope, source, words

from tests.store.reader.conversation import Draft, replied, said, store

EVERYTHING = scope.Scope(("user", "assistant", "tool"), None, include_echoes=False)


def order(layout: Layout, name: str, query: str, *drafts: Draft) -> ranking.Order:
    with source.opened(store(layout, "s", *drafts)) as connection:
        rows = scope.Rows(connection, EVERYTHING)
        found = [words.find(connection, word) for word in words.parse(query, words.Tokenizer(connection))]
        matched: dict[int, int] = {}
        for each in found:
            for seq in each.seqs:
                matched[seq] = matched.get(seq, 0) + 1
        return ranking.RANKINGS[name](connection, found, matched, rows, 100)


def seqs(found: ranking.Order) -> list[int]:
    return [place.seq for place in found.places]


FILLER = [said(f"filler number {n}") for n in range(20)]


def test_contract_puts_distinct_words_before_relevance(layout: Layout) -> None:
    found = order(
        layout, "contract", "red fish", said("fish fish fish"), said("a red one and some long fish tale"), said("red")
    )
    assert seqs(found)[0] == 2
    assert [place.score[0] for place in found.places] == [-2, -1, -1]


def test_contract_breaks_ties_by_bm25(layout: Layout) -> None:
    found = order(layout, "contract", "fish", said("fish in a much longer row of many other words"), said("fish"))
    assert seqs(found) == [2, 1]


def test_a_rare_word_outweighs_common_ones(layout: Layout) -> None:
    common = [said("the server restarted with error") for _ in range(20)]
    found = order(layout, "best", "server error quartz", *common, *FILLER, said("quartz"), *FILLER)
    assert seqs(found)[0] == 41


def test_among_equals_the_newest_row_leads(layout: Layout) -> None:
    """The last value of a key is the one that holds."""
    found = order(
        layout,
        "best",
        "K7",
        said("SET K7 = 1"),
        *FILLER,
        said("SET K7 = 2 and more words"),
        *FILLER,
        said("SET K7 = 3"),
    )
    assert seqs(found) == [43, 22, 1]


def test_a_row_beside_another_that_matches_leads(layout: Layout) -> None:
    found = order(
        layout,
        "best",
        "harbour ledger",
        said("harbour"),
        *FILLER,
        said("the harbour"),
        replied("a ledger"),
        *FILLER,
        said("harbour"),
    )
    assert set(seqs(found)[:2]) == {22, 23}


def test_stop_words_match_but_do_not_rank(layout: Layout) -> None:
    found = order(layout, "best", "where is the ledger", said("where is the where is the"), *FILLER, said("ledger"))
    assert seqs(found) == [22]


def test_a_query_of_stop_words_ranks_by_them(layout: Layout) -> None:
    assert seqs(order(layout, "best", "the", *FILLER, said("the"))) == [21]


def test_an_identifier_is_found_by_its_parts(layout: Layout) -> None:
    found = order(
        layout, "best", "get api key and headers", said("get the key"), *FILLER, said("getApiKeyAndHeaders()")
    )
    assert seqs(found)[0] == 22
    assert found.related["api"] == ("getapikeyandheaders",)


def test_another_ending_is_found_and_named(layout: Layout) -> None:
    found = order(layout, "best", "deploying", *FILLER, said("it was deployed"))
    assert (seqs(found), found.related) == ([21], {"deploying": ("deployed",)})


def test_one_slip_is_found_when_the_word_itself_is_nowhere(layout: Layout) -> None:
    found = order(layout, "best", "qaurtz", *FILLER, said("quartz"))
    assert (seqs(found), found.related) == ([21], {"qaurtz": ("quartz",)})
    assert order(layout, "best", "quartz", said("quartz"), said("quarts")).related == {}


@pytest.mark.parametrize("name", ranking.RANKINGS)
def test_nothing_found_is_an_empty_order(layout: Layout, name: str) -> None:
    assert order(layout, name, "absent", said("other")).places == []
    assert order(layout, name, "", said("other")).places == []


def test_a_pasted_text_of_unknown_words_is_not_taken_for_slips(layout: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes a walk over the vocabulary: with many, a search took longer than a host waits."""
    monkeypatch.setattr(ranking, "MOST_SLIPS", 1)
    found = order(layout, "best", "harbuor lantren", said("the harbour opens"), said("a lantern"))
    assert found.related == {"harbuor": ("harbour",)}
