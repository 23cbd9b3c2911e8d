"""Own what an answer reports of its tokens, whole or as the chunks of a stream."""

import msgspec

from ..usage import Usage


class _Details(msgspec.Struct):
    cached_tokens: int | None = None
    cache_creation_tokens: int | None = None
    cache_write_tokens: int | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _Details | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None


class _Answer(msgspec.Struct):
    """A whole answer, or one chunk of a stream."""

    usage: _Counts | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def usage(payload: bytes) -> Usage | None:
    """Return what one chunk, or one whole answer, reports; None where it reports nothing.

    The prompt's count includes cached tokens; a gateway's own cache fields win over the details.
    """
    counts = _ANSWER.decode(payload).usage
    if counts is None:
        return None
    details = counts.prompt_tokens_details or _Details()
    read = _first(counts.cache_read_input_tokens, details.cached_tokens)
    created = _first(
        counts.cache_creation_input_tokens, _first(details.cache_creation_tokens, details.cache_write_tokens)
    )
    fresh = None if counts.prompt_tokens is None else max(0, counts.prompt_tokens - (read or 0) - (created or 0))
    return Usage(
        input_tokens=fresh,
        cache_read_tokens=read,
        cache_creation_tokens=created,
        output_tokens=counts.completion_tokens,
        final=True,
    )


def _first(preferred: int | None, other: int | None) -> int | None:
    return other if preferred is None else preferred
