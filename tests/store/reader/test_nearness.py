"""What words add up to for a row."""

from collections.abc import Sequence, Set

from hypothesis import example, given
from hypothesis import strategies as st
from openmem_store.reader import nearness, turns
from openmem_store.reader.nearness import Spread


def simply(places: Sequence[int], words: Sequence[Spread]) -> dict[int, float]:
    """Return what `scores` returns, the way it is said: place by place, word by word, the nearest counts."""
    total = sum(word.weight for word in words) or 1.0
    found = dict.fromkeys(places, 0.0)
    for word in words:
        reached: Set[int] = set()
        for distance, share in enumerate((1.0, *nearness.BESIDE)):
            here = {place + side * distance for place in word.places for side in (-1, 1)}
            for place in (here - reached) & found.keys():
                found[place] += share * word.weight / total
            reached = reached | here
    return found


def test_a_word_counts_once_in_the_row_or_beside_it() -> None:
    assert nearness.scores([1, 2, 3, 4, 9], [Spread([1, 2, 9], 2.0)], 9) == {1: 1.0, 2: 1.0, 3: 0.6, 4: 0.3, 9: 1.0}


def test_words_count_by_their_share_of_all_weight() -> None:
    words = [Spread([5], 3.0), Spread([6], 1.0)]
    assert nearness.scores([5, 6], words, 7) == {5: 0.75 + 0.6 * 0.25, 6: 0.6 * 0.75 + 0.25}


def test_nothing_looked_for_is_worth_nothing() -> None:
    assert nearness.scores([1, 2], [], 2) == {1: 0.0, 2: 0.0}
    assert nearness.scores([], [Spread([1], 1.0)], 1) == {}


PLACES = st.sets(st.integers(0, 40), max_size=20)
WORDS = st.lists(st.tuples(PLACES, st.floats(0.0, 9.0)), max_size=6)


@given(PLACES, WORDS, st.integers(0, 5))
@example({0}, [({0}, 0.0)], 0)
def test_scores_are_those_of_the_simple_way_to_the_last_bit(
    places: set[int], given_words: list[tuple[set[int], float]], room: int
) -> None:
    words = [Spread(where, weight) for where, weight in given_words]
    last = max((0, *places, *(place for word in words for place in word.places))) + room
    assert nearness.scores(sorted(places), words, last) == simply(sorted(places), words)


def test_every_distance_within_reach_has_its_share() -> None:
    assert len(nearness.BESIDE) == turns.REACH
