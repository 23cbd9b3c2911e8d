"""What of a row an answer shows."""

from openmem_store.reader import excerpts
from openmem_store.reader.answers import Span
from openmem_store.reader.words import Word


def find(text: str, *words: str, skipped: tuple[int, ...] = ()) -> list[Span]:
    return excerpts.matcher([Word(word, (word.lower(),)) for word in words])(text, skipped)


def test_the_last_matching_lines_are_shown() -> None:
    """A key that was set many times counts with its last value."""
    text = "\n".join(f"SET K{n % 2} = v{n}" for n in range(40))
    shown = excerpts.lines(text, find(text, "K1"), 1000)
    assert shown.split("\n") == [f"{n + 1}: SET K1 = v{n}" for n in (31, 33, 35, 37, 39)]


def test_lines_with_the_most_words_win() -> None:
    text = "red\nred fish\nfish\nred and fish"
    assert [number for number, _, _ in find(text, "red", "fish")] == [2, 4]


def test_lines_to_leave_out_are_left_out() -> None:
    assert [number for number, _, _ in find("red\nred\nred", "red", skipped=(2,))] == [1, 3]


def test_a_long_line_is_cut_around_its_match() -> None:
    line = "a" * 5000 + " needle " + "b" * 5000
    shown = excerpts.lines(line, find(line, "needle"), 1000)
    assert shown.startswith("1: …a")
    assert shown.endswith("b…")
    assert " needle " in shown
    assert len(shown) == len("1: ……") + excerpts.MOST_LINE


def test_the_excerpt_goes_where_the_matches_are_dense() -> None:
    line = "red " + "x" * 3000 + " red fish red" + "y" * 3000
    assert "red fish red" in excerpts.lines(line, find(line, "red", "fish"), 1000)


def test_a_line_that_holds_a_word_thousands_of_times_is_one_line() -> None:
    text = "\nred\n" + "red " * 100_000 + "\n\nfish red\n"
    assert [number for number, _, _ in find(text, "red")] == [2, 3, 5]


def test_a_match_longer_than_the_window_shows_its_start() -> None:
    assert excerpts.around("x" * 1000 + "START" + "y" * 5000, 1000, 6005, 100).startswith("…START")


def test_a_word_whose_parts_stand_on_two_lines_shows_the_first() -> None:
    text = "filler\nmy KEY\n7 follows"
    assert find(text, "key-7") == [(2, 10, 13)]
    assert excerpts.lines(text, find(text, "key-7"), 1000) == "2: my KEY"


def test_cuts_fall_on_code_points() -> None:
    line = "😀" * 3000
    assert set(excerpts.around(line, 1500, 1501, 100)) == {"😀", "…"}
    assert excerpts.head(line, 10) == "😀" * 9 + "…"


def test_the_whole_excerpt_keeps_its_size() -> None:
    text = "\n".join("needle " + "x" * 1000 for _ in range(9))
    assert len(excerpts.lines(text, find(text, "needle"), 1000)) <= 1000


def test_text_without_the_words_has_no_lines() -> None:
    assert find("nothing here", "absent") == []
    assert excerpts.matcher([])("text", ()) == []


def test_of_a_huge_row_the_end_is_looked_at() -> None:
    text = "needle\n" + "x" * 50 + "\n" + ("filler line\n" * 100_000) + "needle"
    assert find(text, "needle") == [(100_003, len(text) - 6, len(text))]
