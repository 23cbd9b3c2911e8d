"""Own what an answer reports of its tokens, whole or as the events of a stream."""

import msgspec

from ..source import ABSENT, present
from ..usage import Usage


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    output_tokens: int | None = None
    iterations: msgspec.Raw = ABSENT


class _Iteration(msgspec.Struct):
    """One sampling of an answer that took several, as server tools and the provider's own compaction do."""

    type: str = ""
    input_tokens: int = 0
    cache_read_input_tokens: int = 0
    cache_creation_input_tokens: int = 0


class _Reply(msgspec.Struct):
    usage: _Counts | None = None


class _Event(msgspec.Struct):
    """A whole answer, or one event of a stream."""

    type: str = ""
    message: _Reply | None = None
    usage: _Counts | None = None


_EVENT = msgspec.json.Decoder(_Event)

_ITERATIONS = msgspec.json.Decoder(list[_Iteration])


def usage(payload: bytes) -> Usage | None:
    """Return what one event, or one whole answer, reports; None where it reports nothing.

    The counts of a stream are cumulative: the tap keeps the last one reported of each.
    """
    event = _EVENT.decode(payload)
    counts = event.usage or (event.message.usage if event.message else None)
    final = event.type in ("message_stop", "message")
    if counts is None:
        return Usage(final=True) if final else None
    return Usage(
        input_tokens=counts.input_tokens,
        cache_read_tokens=counts.cache_read_input_tokens,
        cache_creation_tokens=counts.cache_creation_input_tokens,
        output_tokens=counts.output_tokens,
        last_prompt=_last_prompt(counts.iterations),
        final=final,
    )


def _last_prompt(iterations: msgspec.Raw) -> int | None:
    """Return the prompt of the last sampling: it is the live context, their sum only what is paid."""
    try:
        every = _ITERATIONS.decode(iterations) if present(iterations) else []
    except msgspec.MsgspecError:
        return None  # a detail we read for its worth; the counts beside it are still good
    last = next((one for one in reversed(every) if one.type == "message"), None)
    return last and last.input_tokens + last.cache_read_input_tokens + last.cache_creation_input_tokens
