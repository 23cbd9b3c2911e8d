"""Hold the estimate to its formula: last reported prompt, what was added since, at the ratio of that prompt."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_addon.core import tokens
from openmem_addon.core.view import Sample

CASES: dict[str, tuple[int, int, Sample | None, int]] = {
    "no sample": (1001, 0, None, 401),
    "no sample, with an image": (1001, 1600, None, 2001),
    "nothing new": (4000, 0, Sample(1000, 4000, 0), 1000),
    "more text at the ratio of the prompt": (4400, 0, Sample(1000, 4000, 0), 1100),
    "less text after a trim": (1000, 0, Sample(1000, 4000, 0), 250),
    "the ratio leaves images aside": (4400, 500, Sample(1500, 4000, 500), 1600),
    "a new image": (4000, 2100, Sample(1500, 4000, 500), 3100),
    "a dense prompt counts half a character a token": (4010, 0, Sample(1_000_000, 4000, 0), 1_000_020),
    "a thin prompt counts eight": (4800, 0, Sample(10, 4000, 0), 110),
    "a prompt of images alone": (4800, 90, Sample(80, 4000, 90), 180),
    "never below nothing": (0, 0, Sample(10, 4000, 0), 0),
}


@pytest.mark.parametrize(("chars", "media", "sample", "expected"), CASES.values(), ids=CASES)
def test_an_estimate_follows_the_formula(chars: int, media: int, sample: Sample | None, expected: int) -> None:
    assert tokens.estimate(chars, media, sample, 2.5) == expected


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 10**6), st.integers(0, 10**7))
def test_more_text_is_never_fewer_tokens(chars: int, more: int, prompt: int, known: int) -> None:
    sample = Sample(prompt, known, 0)
    for given_sample in (sample, None):
        assert tokens.estimate(chars + more, 0, given_sample, 2.5) >= tokens.estimate(chars, 0, given_sample, 2.5)


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("x", 1), ("家" * 5, 2), ("🏠" * 6, 3)])
def test_plain_tokens_are_code_points_by_the_setting(text: str, expected: int) -> None:
    assert tokens.plain(text, 2.5) == expected == math.ceil(len(text) / 2.5)
