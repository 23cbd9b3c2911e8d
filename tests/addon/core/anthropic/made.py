"""Make requests of the Anthropic wire as they are read, and as they are written."""

import hashlib
from typing import Any

import msgspec
from openmem_addon.core import anthropic
from openmem_addon.core.model import Conversation
from openmem_addon.core.rendering import Rendering, applied
from openmem_addon.core.view import View

from fixtures.provider.wire import Json
from tests.conversations import (
    PIXEL,
    body,
    encode,
)

PNG = {"type": "base64", "media_type": "image/png", "data": PIXEL}


def parsed(*messages: Json, **more: Any) -> Conversation:
    return anthropic.parse(encode(body(*messages, **more)))


def plain(conversation: Conversation, **more: Any) -> Rendering:
    """Return the rendering that changes nothing, with fields replaced."""
    return msgspec.structs.replace(applied(conversation, View(), 2.5), **more)


def rendered(request: bytes, **more: Any) -> bytes:
    conversation = anthropic.parse(request)
    return anthropic.render(conversation, plain(conversation, **more))


def size_and_hash(content: str) -> str:
    return f"{len(content)} bytes sha256:{hashlib.sha256(content.encode()).hexdigest()[:16]}"
