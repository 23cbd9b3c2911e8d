"""Own the parts of a content or an output: what each says and weighs."""

import msgspec

from .. import media, source
from ..described import attached, data_url, described, without_mark
from ..source import present

_IMAGES = ("input_image", "computer_screenshot")

_MEDIA = (*_IMAGES, "input_file")


class Part(msgspec.Struct):
    """The fields we read of a content part."""

    type: str = ""
    text: str = ""
    refusal: str = ""
    logs: str = ""
    stdout: str = ""
    stderr: str = ""
    image_url: str | None = None
    detail: str | None = None
    file_data: str | None = None
    file_url: str | None = None
    file_id: str | None = None


PART = msgspec.json.Decoder(Part)

LIST = msgspec.json.Decoder(list[msgspec.Raw])


def parts_of(value: msgspec.Raw) -> list[tuple[Part, str]]:
    """Return each part of a content or output and its row text; a string is one text part, an object one part."""
    raw = bytes(value)
    if not present(value):
        return []
    if raw.startswith(b'"'):
        text = msgspec.json.decode(raw, type=str)
        return [(Part("text", text=text), text)]
    if not raw.startswith(b"["):
        part = PART.decode(raw) if raw.startswith(b"{") else Part("value")
        return [(part, _text(part, raw) if part.type in _MEDIA else source.compact(raw))]
    decoded = [(PART.decode(part), bytes(part)) for part in LIST.decode(value)]
    return [(part, _text(part, inner)) for part, inner in decoded]


def _text(part: Part, raw: bytes) -> str:
    """Return a part as text: its words, whatever field holds them, or its type, size and hash."""
    if part.type in ("text", "input_text", "output_text", "summary_text", "reasoning_text"):
        return part.text
    if part.type in _MEDIA:
        return attached(part.type, part.image_url or part.file_data, part.file_url or part.file_id, raw)
    words = [text for text in (part.text, part.refusal, part.logs, part.stdout, part.stderr) if text]
    return "\n".join(words) or described(part.type, "", without_mark(raw))


def media_tokens(part: Part) -> int:
    if part.type in _IMAGES:
        inline = data_url(part.image_url or "")
        return media.tile_tokens(inline[1] if inline else None, low=part.detail == "low")
    if part.type == "input_file":
        inline = data_url(part.file_data or "")
        return media.document_tokens(inline[1] if inline else part.file_data)
    return 0
