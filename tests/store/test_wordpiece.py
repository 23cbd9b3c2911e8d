"""The cutting of a text into word pieces; the expected pieces are those of the reference tokenizer."""

from importlib import resources

import pytest
from openmem_store import wordpiece

VOCABULARY = wordpiece.read(
    (resources.files("openmem_store") / "minilm" / "vocabulary.txt").read_text(encoding="utf-8")
)
PIECES = list(VOCABULARY)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("", []),
        ("The retry-limit is 42!", "the re ##try - limit is 42 !".split()),
        ("naïve ÉCOLE", ["naive", "ecole"]),
        ("$^`~|+<=>", list("$^`~|+<=>")),
        ("a\u200bb x\x00y\x07z", ["ab", "x", "##y", "##z"]),
        ("e\u0301te a\u00a0b\u2028c", ["et", "##e", "a", "b", "c"]),
        ("中国a人2", ["中", "国", "a", "人", "2"]),
        ("x\ufffdy", ["x", "##y"]),
        ("a" * 101, ["[UNK]"]),
        ("tab\tnew\nline", ["tab", "new", "line"]),
    ],
)
def test_words_are_cut_as_the_model_was_trained(text: str, pieces: list[str]) -> None:
    assert [PIECES[number] for number in wordpiece.ids(text, VOCABULARY, most=99)] == ["[CLS]", *pieces, "[SEP]"]


def test_a_vocabulary_numbers_its_lines() -> None:
    assert wordpiece.read("one\ntwo\n") == {"one": 0, "two": 1}
    assert (len(VOCABULARY), VOCABULARY["[PAD]"], VOCABULARY["[CLS]"], VOCABULARY["##ing"]) == (30522, 0, 101, 2075)


def test_a_long_text_is_cut_and_still_ends() -> None:
    found = wordpiece.ids("one " * 1000, VOCABULARY, most=8)
    assert [PIECES[number] for number in found] == ["[CLS]", *["one"] * 6, "[SEP]"]


def test_the_longest_piece_wins_and_a_word_without_one_is_unknown() -> None:
    vocabulary = wordpiece.read("[UNK]\nab\na\n##b\n##bc\nabx")
    assert wordpiece.pieces("abbc", vocabulary) == [1, 4]
    assert wordpiece.pieces("abx", vocabulary) == [5]
    assert wordpiece.pieces("az", vocabulary) == [0]
