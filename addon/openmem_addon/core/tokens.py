"""Own the estimate of a prompt's tokens, calibrated by what the provider reported last."""

import math

from .view import Sample

LEAST_RATIO, MOST_RATIO = 0.5, 8.0
"""Characters per token outside these are a report we misread, not a text."""

MOST_CREDIBLE = 20_000_000
"""A larger reported prompt is a fault of the endpoint and calibrates nothing, tokens."""


def estimate(chars: int, media: int, sample: Sample | None, chars_per_token: float) -> int:
    """Return the prompt tokens of a request of `chars` code points and `media` tokens of images.

    With a sample: the last reported prompt, plus what was added or taken since at the ratio
    of that prompt. Without: every character at the fallback ratio.
    """
    if sample is None:
        return math.ceil(chars / chars_per_token) + media
    return max(0, round(sample.prompt + media - sample.media + (chars - sample.chars) / ratio(sample)))


def ratio(sample: Sample) -> float:
    """Return the characters per token of a reported prompt, within credible bounds."""
    text_tokens = sample.prompt - sample.media
    if text_tokens <= 0:
        return MOST_RATIO
    return min(MOST_RATIO, max(LEAST_RATIO, sample.chars / text_tokens))


def plain(text: str, chars_per_token: float) -> int:
    """Return the uncalibrated tokens of a text: what a marker states may never move with calibration."""
    return math.ceil(len(text) / chars_per_token)
