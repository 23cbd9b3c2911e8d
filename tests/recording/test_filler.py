"""Neutral text of the same length and shape."""

import pytest

from fixtures.recording import filler

LINES = ["", " ", "You must not.", "  - a point of a list", "## A heading", "1. first", "naïve 天气 🌤", "a\udc97b"]


@pytest.mark.parametrize("line", LINES)
def test_a_filled_line_has_the_length_of_the_line_and_is_recognised(line):
    filled = filler.fill(line)
    assert len(filled) == len(line)
    assert filler.filled(filled)


@pytest.mark.parametrize("length", range(60))
def test_any_length_can_be_made_of_words(length):
    filled = filler.fill("x" * length)
    assert len(filled) == length
    assert set(filled.split()) <= set(filler.WORDS)


def test_the_same_line_always_gives_the_same_words_and_another_line_others():
    one = "The first of two lines, long enough to tell apart."
    assert filler.fill(one) == filler.fill(one)
    assert filler.fill(one) != filler.fill(one.replace("first", "other"))


@pytest.mark.parametrize("mark", ["  - ", "### ", "12. ", "> ", "    "])
def test_the_mark_of_a_list_or_a_heading_stays(mark):
    assert filler.fill(f"{mark}some vendor text").startswith(mark)


def test_a_line_of_other_words_is_not_recognised():
    assert not filler.filled("some vendor text")


def test_there_is_a_word_of_every_length():
    assert {len(word) for word in filler.WORDS} == set(range(1, filler.LONGEST + 1))
