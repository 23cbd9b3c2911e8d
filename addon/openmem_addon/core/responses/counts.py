"""Own what an answer reports of its tokens, whole or as the events of a stream, and what a kept one said."""

from collections.abc import Sequence

import msgspec
from openmem_store.rows import Draft

from .. import source
from ..usage import Usage
from .reading import Reader


class _Details(msgspec.Struct):
    cached_tokens: int | None = None


class _Counts(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _Details | None = None


class _Answer(msgspec.Struct):
    id: str | None = None
    usage: _Counts | None = None
    output: list[msgspec.Raw] = []
    store: bool = True


class _Event(msgspec.Struct):
    """A whole answer, or one event of a stream."""

    type: str = ""
    response: _Answer | None = None


_EVENT = msgspec.json.Decoder(_Event)

_WHOLE = msgspec.json.Decoder(_Answer)

_FINAL = ("response.completed", "response.incomplete", "response.failed")


def usage(payload: bytes) -> Usage | None:
    """Return what one event, or one whole answer, reports; None where it reports nothing.

    The input's count includes cached tokens; cache writes are not reported.
    """
    event = _EVENT.decode(payload)
    answer = event.response or (_WHOLE.decode(payload) if not event.type else _Answer())
    final = event.type in _FINAL or not event.type
    if not final and answer.usage is None:
        return None
    counts = answer.usage or _Counts()
    read = counts.input_tokens_details.cached_tokens if counts.input_tokens_details else None
    return Usage(
        input_tokens=None if counts.input_tokens is None else max(0, counts.input_tokens - (read or 0)),
        cache_read_tokens=read,
        output_tokens=counts.output_tokens,
        final=final,
        response_id=answer.id if final and answer.store else None,
        output=_said(answer.output) if final and answer.store else (),
    )


def _said(output: Sequence[msgspec.Raw]) -> tuple[Draft, ...]:
    """Return the drafts of the items a response consists of."""
    reader = Reader()
    items = (reader.item(bytes(raw), source.readable(bytes(raw))) for raw in output)
    return tuple(draft for item in items if item.stored for draft in item.drafts)
