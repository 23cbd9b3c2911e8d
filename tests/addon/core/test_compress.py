"""Hold the compressed form to its golden bytes, and to code points."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_addon.core import compress
from openmem_store.rows import blob_id

GOLDEN = Path(__file__).parents[3] / "fixtures" / "golden"


def test_the_form_is_the_golden_bytes() -> None:
    text = (GOLDEN / "compressed_input.txt").read_bytes().decode()
    made = compress.compressed(compress.result(0, 0, text), 2.5)
    assert made is not None
    assert made.encode() == (GOLDEN / "compressed.txt").read_bytes()


@pytest.mark.parametrize("size", [0, 1, 2500, 2501, 2600])
def test_a_text_that_would_not_get_shorter_stays(size: int) -> None:
    assert compress.compressed(compress.result(0, 0, "x" * size), 2.5) is None


@given(st.integers(0, 3), st.sampled_from(["🌤", "天", "é", "\r\n", "\x1b[31m", "x"]), st.floats(0.5, 8))
def test_head_and_tail_are_whole_code_points_of_the_text(shift: int, unit: str, ratio: float) -> None:
    text = "." * shift + unit * 4000
    made = compress.compressed(compress.result(0, 0, text), ratio)
    assert made is not None
    assert len(made) < len(text)
    first, rest = made.split("\n", 1)
    assert first.startswith(f"[openmem: tool result compressed, {-(-len(text) // ratio):.0f} tokens — ")
    assert f'smart_compact_get(id="{blob_id(text)}")' in first
    assert rest.startswith(text[: compress.HEAD])
    assert rest.endswith(text[-compress.TAIL :])
    assert rest == f"{text[: compress.HEAD]}\n…\n{text[-compress.TAIL :]}"
    made.encode()
