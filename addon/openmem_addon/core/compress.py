"""Own what stands for a long tool result: its head, its tail and the blob that holds the whole."""

from openmem_store.rows import blob_id

from . import texts, tokens
from .model import Result

HEAD = 1500
"""Code points of the head excerpt: a command's first output, a file's imports; constant, or prefixes would change."""

TAIL = 1000
"""Code points of the tail excerpt, where errors and summaries stand."""


def result(place: int, draft: int, text: str) -> Result:
    """Return a tool result that could be shown compressed."""
    return Result(place, draft, text, blob_id(text) if len(text) > HEAD + TAIL else "")


def form(result: Result, chars_per_token: float) -> str:
    """Return the shorter of a tool result and its compressed form."""
    return compressed(result, chars_per_token) or result.text


def compressed(result: Result, chars_per_token: float) -> str | None:
    """Return the compressed form of a tool result, or None where it would not be shorter.

    A pure function of the text and the settings, cut on code points, so that it is the same
    bytes on every request.
    """
    text = result.text
    if not result.blob:
        return None
    form = texts.compressed(tokens.plain(text, chars_per_token), result.blob, text[:HEAD], text[-TAIL:])
    return form if len(form) < len(text) else None
