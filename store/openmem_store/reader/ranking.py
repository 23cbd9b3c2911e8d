"""Own the order of the rows that match. A key sorts ascending, and compares across sessions."""

from collections.abc import Callable, Iterable, Sequence
from typing import cast

import apsw

from openmem_store.reader.scope import Rows
from openmem_store.reader.words import Found

Key = tuple[float, float]
Ranked = list[tuple[Key, int]]
"""Keys and `seq`s, best first."""


def contract(connection: apsw.Connection, found: Sequence[Found], matched: dict[int, int], rows: Rows) -> Ranked:
    """Order by how many distinct words a row holds, then by BM25."""
    scores = bm25(connection, [each.word.phrase for each in found if each.word.tokens])
    return sorted(((-count, scores.get(seq, 0.0)), seq) for seq, count in matched.items())


def bm25(connection: apsw.Connection, phrases: Sequence[str]) -> dict[int, float]:
    """Return the score of every row that holds any of the phrases; FTS5 makes the best the most negative."""
    if not phrases:
        return {}
    found = connection.execute(_SCORES, (" OR ".join(phrases),))
    return dict(cast("Iterable[tuple[int, float]]", found))


_SCORES = "SELECT rowid, bm25(messages_fts) FROM main.messages_fts WHERE messages_fts MATCH ?"

ORDERS: dict[str, Callable[[apsw.Connection, Sequence[Found], dict[int, int], Rows], Ranked]] = {
    "contract": contract,
    "best": contract,
}
