"""Own which wire format a path speaks. A fourth is one module and one line here."""

from types import ModuleType
from typing import Protocol, cast

import msgspec

from . import anthropic, chat, responses
from .model import Conversation
from .rendering import Rendering
from .usage import Usage


class Adapter(Protocol):
    """What one wire format can do; implemented by a module."""

    def parse(self, body: bytes, known: Conversation | None = None) -> Conversation: ...

    def render(self, conversation: Conversation, rendering: Rendering) -> bytes: ...

    def usage(self, payload: bytes) -> Usage | None: ...


class Route(msgspec.Struct, frozen=True):
    """What a request path asks for."""

    adapter: Adapter
    counts: bool = False
    """The path only counts tokens."""
    compacts: bool = False
    """The path only asks the provider to compact the history."""
    valve: str | None = None
    """Value of the `anthropic-beta` header that a request with the valve open needs; None where there is no valve."""


def _wire(module: ModuleType) -> Adapter:
    return cast(Adapter, module)


ROUTES: dict[str, Route] = {
    "/v1/messages": Route(_wire(anthropic), valve=anthropic.VALVE_BETA),
    "/v1/messages/count_tokens": Route(_wire(anthropic), counts=True, valve=anthropic.VALVE_BETA),
    "/chat/completions": Route(_wire(chat)),
    "/responses": Route(_wire(responses)),
    "/responses/compact": Route(_wire(responses), compacts=True),
}
"""By path suffix, so that any prefix of a gateway works."""


def for_path(path: str) -> Route | None:
    """Return the route of a request path, its query ignored; None where it is none of ours."""
    bare = path.partition("?")[0].rstrip("/")
    return next((route for suffix, route in ROUTES.items() if bare.endswith(suffix)), None)
