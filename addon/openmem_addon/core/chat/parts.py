"""Own the parts of a content: what each says and weighs."""

import msgspec

from .. import media, source
from ..described import attached, data_url, described, without_mark


class _Url(msgspec.Struct):
    url: str = ""
    detail: str = ""


class _Audio(msgspec.Struct):
    data: str = ""
    format: str = ""


class _File(msgspec.Struct):
    file_data: str | None = None
    file_id: str | None = None


class Part(msgspec.Struct):
    """The fields we read of a content part."""

    type: str
    text: str = ""
    refusal: str = ""
    image_url: _Url | None = None
    input_audio: _Audio | None = None
    file: _File | None = None


_PART = msgspec.json.Decoder(Part)


def parts_of(content: str | list[msgspec.Raw] | None) -> list[tuple[Part, str]]:
    """Return each content part and its row text; a string is one text part, no content is none."""
    if content is None:
        return []
    if isinstance(content, str):
        return [(Part("text", text=content), content)]
    return [_part(bytes(raw)) for raw in content]


def _part(raw: bytes) -> tuple[Part, str]:
    """Return a content part and its row text; what is no object, which some back ends let pass, is its source."""
    if not raw.startswith(b"{"):
        return Part("value"), source.compact(raw)
    part = _PART.decode(raw)
    return part, _text(part, raw)


def _text(part: Part, raw: bytes) -> str:
    if part.type == "text":
        return part.text
    if part.type == "refusal":
        return part.refusal
    if part.image_url is not None:
        return attached(part.type, part.image_url.url, None, raw)
    if part.file is not None:
        return attached(part.type, part.file.file_data, part.file.file_id, raw)
    if part.input_audio is not None:
        return described(part.type, f"audio/{part.input_audio.format}", part.input_audio.data.encode())
    return described(part.type, "", without_mark(raw))


def media_tokens(part: Part) -> int:
    if part.image_url is not None:
        inline = data_url(part.image_url.url)
        return media.tile_tokens(inline[1] if inline else None, low=part.image_url.detail == "low")
    if part.file is not None:
        inline = data_url(part.file.file_data or "")
        return media.document_tokens(inline[1] if inline else part.file.file_data)
    return 0
