"""Hold what we put into a prompt to the contract's bytes."""

from pathlib import Path

import pytest
from openmem_addon.core import texts

GOLDEN = Path(__file__).parents[3] / "fixtures" / "golden"


def test_the_standing_instruction_is_the_golden_bytes() -> None:
    assert texts.STANDING_INSTRUCTION.encode() == (GOLDEN / "standing_instruction.txt").read_bytes()


def test_the_pointer_is_the_golden_bytes() -> None:
    assert texts.pointer("0b7c2d9e-demo.1", 41).encode() == (GOLDEN / "pointer.txt").read_bytes()


@pytest.mark.parametrize("made", [texts.STANDING_INSTRUCTION, texts.pointer("s", 1), texts.NO_TEXT])
def test_no_text_of_ours_is_blank(made: str) -> None:
    assert made.strip() == made != ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Use smart_compact_search.", "Use smart_compact_search."),
        (f"a\n{texts.STANDING_INSTRUCTION}\nb", "a\n\nb"),
        (f"{texts.pointer('s', 1)} a {texts.pointer('t', 2)}", " a "),
        (texts.compressed(9, "0" * 16, "head", "tail"), "\nhead\n…\ntail"),
        ("a [openmem: cut", "a "),
        ("[openmem]", "[openmem]"),
    ],
)
def test_sentences_of_ours_are_taken_out_of_a_text(text: str, left: str) -> None:
    assert texts.without_ours(text) == left
