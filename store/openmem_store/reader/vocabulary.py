"""Own the words that the store has instead of the ones a query says: other endings, joined names, one slip.

All of it is read from the index's own vocabulary, so nothing is stored for it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import cast

import apsw
import msgspec

from openmem_store.reader.words import UNSPACED, Tokenizer, Word

MOST_RELATED = 20
"""Terms that one word may stand for; a stem with more is too general to help."""

MOST_JOINED = 12
"""Words of a query that are tried together as one identifier."""

SHORTEST = 3
"""Characters of a stem, below which too much shares it."""

SHORTEST_SLIP = 5
"""Characters of a word that may hold a slip; a shorter one has too many neighbours."""

STOP = frozenset(
    """a about above after again all also am an and any are as at be because been before being between both but by
    can could did do does doing down during each few for from further had has have having he her here hers him his
    how i if in into is it its itself just me more most my no nor not now of off on once only or other our out over
    own same she should so some such than that the their them then there these they this those through to too under
    until up very was we were what when where which while who whom why will with would you your""".split()
)
"""Words that say nothing of what is looked for. They count as matches; they do not rank."""


def says_something(word: Word) -> bool:
    """Tell whether a word may rank: it is neither a stop word nor a single letter."""
    return not word.tokens or not all(
        token in STOP or (len(token) == 1 and token.isascii() and token.isalpha()) for token in word.tokens
    )


class Vocabulary:
    """The terms of one session's index, as long as it does not grow."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        self._stem = Tokenizer(connection, "porter", "unicode61")
        connection.execute(
            "CREATE VIRTUAL TABLE IF NOT EXISTS temp.vocabulary USING fts5vocab('main', 'messages_fts', 'row')"
        )

    def relatives(self, words: Sequence[Word]) -> list[tuple[str, ...]]:
        """Return for each word the terms that have the stem of one of its tokens, the tokens themselves left out."""
        stems = {token: self._stem.tokens(token) for word in words for token in word.tokens}
        # Porter may change the last letter ("happy", "happi"); the terms share what is before it.
        common = {
            token: stem[0] if token.startswith(stem[0]) else stem[0][:-1]
            for token, stem in stems.items()
            if token not in STOP and len(token) >= SHORTEST
        }
        shared = self._beginning(common)
        found: list[tuple[str, ...]] = []
        for word in words:
            related = (term for token in word.tokens for term, stem in shared.get(token, ()) if stem == stems[token])
            found.append(tuple(dict.fromkeys(term for term in related if term not in word.tokens))[:MOST_RELATED])
        return found

    def _beginning(self, common: Mapping[str, str]) -> dict[str, list[tuple[str, tuple[str, ...]]]]:
        """Return for each key the terms that begin with its value, and their stems, unless the value is too short.

        One statement for all: each looks up the index anew.
        """
        asked = [token for token, start in common.items() if len(start) >= SHORTEST]
        if not asked:
            return {}
        given = (msgspec.json.encode([common[token] for token in asked]).decode(),)
        rows = cast("Sequence[tuple[int, str]]", self._connection.execute(_BEGINNING, given).fetchall())
        found: dict[str, list[tuple[str, tuple[str, ...]]]] = {token: [] for token in asked}
        for (place, term), stem in zip(rows, self.stems([term for _, term in rows]), strict=True):
            found[asked[place]].append((term, stem))
        return found

    def stems(self, terms: Sequence[str]) -> Sequence[tuple[str, ...]]:
        """Return the stems of each term: of all at once where each has one, as nearly every term of an index has."""
        stems = self._stem.tokens(" ".join(terms))
        if len(stems) == len(terms):
            return [(stem,) for stem in stems]
        return [self._stem.tokens(term) for term in terms]

    def joined(self, words: Sequence[Word]) -> dict[str, tuple[int, int]]:
        """Return terms that neighbouring words make when written together, and which words (from, to) they are."""
        parts = ["".join(word.tokens) for word in words[:MOST_JOINED]]
        wanted = {
            "".join(parts[first:last]): (first, last)
            for first in range(len(parts))
            for last in range(first + 2, len(parts) + 1)
        }
        if not wanted:
            return {}
        return {term: wanted[term] for term in self._terms(_EXACT, (msgspec.json.encode(list(wanted)).decode(),))}

    def glued(self, words: Sequence[Word]) -> list[Word]:
        """Return the words, each with the terms in which a script without spaces stands right beside it.

        An id inside a Chinese sentence is a part of its term, and would be missed as soon as it stands
        alone elsewhere.
        """
        alone = {word.tokens[0] for word in words if len(word.tokens) == 1 and not UNSPACED.search(word.text)}
        found: dict[str, list[str]] = {token: [] for token in alone}
        if alone and self._unspaced:
            beside = {token: re.compile(_BESIDE.format(re.escape(token))) for token in alone}
            for term in self._unspaced:
                for token in alone:
                    if token in term and beside[token].search(term):
                        found[token].append(term)
        return [
            msgspec.structs.replace(word, glued=tuple(found[word.tokens[0]]))
            if len(word.tokens) == 1 and found.get(word.tokens[0])
            else word
            for word in words
        ]

    @cached_property
    def _unspaced(self) -> list[str]:
        """The terms in a script without spaces."""
        if self._connection.execute(_UNSPACED_TERM).fetchone() is None:
            return []
        return [term for term in self._terms(_EVERY, ()) if not term.isascii() and UNSPACED.search(term)]

    def slips(self, word: Word) -> tuple[str, ...]:
        """Return terms that differ from the word by one character added, lost, changed or swapped.

        One slip leaves the first half of a word intact, or the second, which is what the scan asks for.
        """
        if len(word.tokens) != 1 or len(word.tokens[0]) < SHORTEST_SLIP:
            return ()
        token = word.tokens[0]
        half = len(token) // 2
        bindings = (len(token) - 1, len(token) + 1, token[: half - 1], token[half + 1 :])
        near = (term for term in self._terms(_NEAR, bindings) if one_slip(token, term))
        return tuple(near)[:MOST_RELATED]

    def _terms(self, statement: str, bindings: tuple[str | int, ...]) -> Iterable[str]:
        return (term for (term,) in cast("Iterable[tuple[str]]", self._connection.execute(statement, bindings)))


_BESIDE = f"(?:^|{UNSPACED.pattern}){{}}(?:{UNSPACED.pattern}|$)"
# FTS5 cuts a term at 32,768 bytes, also inside a character: such a one is no text, and stands for no word.
_WHOLE = "octet_length({term}) < 32768"
_EVERY = f"SELECT term FROM temp.vocabulary WHERE {_WHOLE.format(term='term')}"
# Thai is the first of these scripts in Unicode: where no term begins at or behind it, none is glued to one.
_UNSPACED_TERM = "SELECT 1 FROM temp.vocabulary WHERE term >= '\u0e00' LIMIT 1"
_BEGINNING = f"""
SELECT s.key, v.term FROM json_each(?) s
CROSS JOIN temp.vocabulary v ON v.term >= s.value AND v.term < s.value || char(1114111)
  AND {_WHOLE.format(term="v.term")}"""
_EXACT = "SELECT v.term FROM json_each(?) w CROSS JOIN temp.vocabulary v ON v.term = w.value"
_NEAR = """
SELECT term FROM temp.vocabulary WHERE length(term) BETWEEN ?1 AND ?2
  AND (substr(term, 1, length(?3)) = ?3 OR substr(term, -length(?4)) = ?4)"""


def one_slip(one: str, other: str) -> bool:
    """Tell whether two different words become equal by one character added, lost, changed or swapped."""
    if len(one) > len(other):
        one, other = other, one
    if len(other) - len(one) > 1 or one == other:
        return False
    same = next((at for at in range(len(one)) if one[at] != other[at]), len(one))
    if len(one) < len(other):
        return one[same:] == other[same + 1 :]
    changed = one[same + 1 :] == other[same + 1 :]
    swapped = one[same : same + 2] == other[same : same + 2][::-1] and one[same + 2 :] == other[same + 2 :]
    return changed or swapped
