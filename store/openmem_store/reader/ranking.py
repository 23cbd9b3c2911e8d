"""Own the order of the rows that match.

`best` was chosen by measurement on 1,982 questions over ten long conversations: share of questions
whose evidence is among the first eight rows, 0.71 against 0.48 for `contract` and 0.51 for BM25 alone.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nlargest, nsmallest
from operator import neg
from typing import cast

import apsw
import msgspec

from openmem_store.reader import nearness
from openmem_store.reader.nearness import Spread
from openmem_store.reader.scope import Rows
from openmem_store.reader.vectors import Nearest
from openmem_store.reader.vocabulary import Vocabulary, says_something
from openmem_store.reader.words import Found, rows_with

NEAR = 0.02
"""Scores closer than this are equal, and the newest row wins: the last value of a key is the one that
holds. Measured: costs nothing."""

SIMILARITY = 0.035
"""What similarity counts, by the square of the standard deviations it is above the session's, against 1 for all
words of the query. Squared, because what means the same stands out: added as it is, similarity either drowns
the words of a dialogue or is drowned by a few words in wrong rows. Of all values tried on one half of the
questions of bench/retrieval.py, this and the next have the best worst case against words or vectors alone."""

DOUBT = 1.5
"""Power of the share of the query that a row's words cover, beside similarity: few words are little evidence."""

LIFTED = 200
"""Rows that hold words whose similarity is looked up; at most a quarter of them is ever shown."""

MOST_SLIPS = 8
"""Words of a query whose slips are looked for, which takes a walk over the vocabulary each. A query with more
unknown words is a pasted text."""

RANK = 60
"""Added to each rank by the contract's fusion."""

Score = tuple[float, ...]
"""Ascending, best first; comparable between sessions."""


class Place(msgspec.Struct, frozen=True):
    """A row's place in the order."""

    score: Score
    tie: float
    """Ascending among equal scores of one session."""
    seq: int


class Order(msgspec.Struct, frozen=True):
    """The leading rows, best first."""

    places: list[Place]
    related: dict[str, tuple[str, ...]] = {}
    """Terms that stood for a word of the query beside the word itself."""


def contract(
    connection: apsw.Connection,
    found: Sequence[Found],
    matched: dict[int, int],
    rows: Rows,
    limit: int,
    near: Nearest | None = None,
) -> Order:
    """Order by how many distinct words a row holds, then by BM25; with `near`, by the ranks in both orders."""
    phrases = [each.word.phrase for each in found if each.word.tokens]
    scores = bm25(connection, phrases) if phrases else {}
    ordered = ((-count, scores.get(seq, 0.0), -seq) for seq, count in matched.items())
    if near is None:
        return Order([Place((count, score), tie, -tie) for count, score, tie in nsmallest(limit, ordered)])
    fused = reciprocal([-tie for *_, tie in sorted(ordered)], list(near.similarity))
    leading = nsmallest(limit, ((-score, -seq) for seq, score in fused.items()))
    return Order([Place((score,), tie, -tie) for score, tie in leading])


def best(
    connection: apsw.Connection,
    found: Sequence[Found],
    matched: dict[int, int],
    rows: Rows,
    limit: int,
    near: Nearest | None = None,
) -> Order:
    """Order by the share of the query's information that a row holds, together with the rows beside it.

    A word weighs by how rare it is, and stands for its other endings, for an identifier that it is a
    part of together with the words beside it, and, when the store does not have it, for a word one
    slip away. With `near`, a row is also lifted by how far its similarity stands out.
    """
    groups, related = _groups(connection, found, rows.vocabulary)
    everywhere = frozenset[int]().union(*groups)
    nearest = frozenset(near.similarity) if near else frozenset[int]()
    positions = rows.positions(everywhere | nearest)
    weights = [math.log((len(rows) + 1) / (len(group) + 0.5)) for group in groups]
    words = [Spread(positions.places(group), weight) for group, weight in zip(groups, weights, strict=True)]
    holding = positions.of(rows.allowed(everywhere) | nearest)
    scores = nearness.scores(list(holding), words, positions.last)
    if near is not None:
        lift(scores, holding, near)
    steps = {score: -round(score / NEAR) for score in set(scores.values())}
    leading = nsmallest(limit, zip(map(steps.__getitem__, scores.values()), map(neg, holding.values()), strict=True))
    return Order([Place((score * NEAR,), tie, -tie) for score, tie in leading], related)


def lift(scores: dict[int, float], holding: Mapping[int, int], near: Nearest) -> None:
    """Change the scores by what the rows' similarity says. `holding`: from their keys to `seq`.

    One that has no vector yet counts as if it were in the middle, and one that cannot be shown anyway
    as the least similar.
    """
    leading = nlargest(LIFTED, scores, key=lambda key: scores[key])
    words_only = [holding[key] for key in leading if holding[key] not in near.similarity]
    similarity = dict.fromkeys(words_only, near.mean) | near.of(words_only) | near.similarity
    least = min(similarity.values(), default=near.mean)
    for key in scores:
        above = (similarity.get(holding[key], least) - near.mean) / near.deviation
        scores[key] = scores[key] ** DOUBT + SIMILARITY * max(0.0, above) ** 2


def reciprocal(*orders: Sequence[int]) -> dict[int, float]:
    """Merge orders of rows by reciprocal rank fusion."""
    scores: dict[int, float] = {}
    for order in orders:
        for rank, seq in enumerate(order, 1):
            scores[seq] = scores.get(seq, 0.0) + 1 / (RANK + rank)
    return scores


def bm25(connection: apsw.Connection, phrases: Sequence[str]) -> dict[int, float]:
    """Return the score of every row that holds any of the phrases; FTS5 makes the best the most negative."""
    found = connection.execute(_SCORES, (" OR ".join(phrases),))
    return dict(cast("Iterable[tuple[int, float]]", found))


_SCORES = "SELECT rowid, bm25(messages_fts) FROM main.messages_fts WHERE messages_fts MATCH ?"


def _groups(
    connection: apsw.Connection, found: Sequence[Found], vocabulary: Vocabulary
) -> tuple[list[frozenset[int]], dict[str, tuple[str, ...]]]:
    """Return the rows that each telling word stands for, and the terms it stands for beside itself."""
    telling = [each for each in found if says_something(each.word)] or list(found)
    joined = vocabulary.joined([each.word for each in found])
    groups: list[frozenset[int]] = []
    related: dict[str, tuple[str, ...]] = {}
    slips = MOST_SLIPS
    for each, terms in zip(telling, vocabulary.relatives([each.word for each in telling]), strict=True):
        position = found.index(each)
        terms += tuple(term for term, (first, last) in joined.items() if first <= position < last)
        if not each.seqs and not terms and slips:
            slips -= 1
            terms = vocabulary.slips(each.word)
        if terms:
            related[each.word.text] = terms
            groups.append(each.seqs | rows_with(connection, terms))
        else:
            groups.append(each.seqs)
    # Words that are one identifier in the store mean it: rows that hold it come before rows that hold the words.
    groups += [rows_with(connection, (term,)) for term in joined]
    return groups, related


Ranking = Callable[[apsw.Connection, Sequence[Found], dict[int, int], Rows, int, Nearest | None], Order]
"""From the words found, the distinct words in each row that passes, and how many rows to return."""

RANKINGS: dict[str, Ranking] = {"best": best, "contract": contract}
