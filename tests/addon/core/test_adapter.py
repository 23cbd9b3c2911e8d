"""Hold the routes to the paths that agents and gateways use."""

from types import ModuleType

import pytest
from openmem_addon.core import adapter, anthropic, chat, responses


@pytest.mark.parametrize(
    ("path", "counts"),
    [
        ("/v1/messages", False),
        ("/v1/messages?beta=true", False),
        ("/v1/messages/", False),
        ("/gateway/anthropic/v1/messages?x=/v1/nothing", False),
        ("/v1/messages/count_tokens", True),
        ("/v1/messages/count_tokens?beta=true", True),
    ],
)
def test_a_path_of_the_messages_wire_is_routed(path: str, counts: bool) -> None:
    route = adapter.for_path(path)
    assert route is not None
    assert route.adapter is anthropic
    assert route.counts == counts


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/v1/models",
        "/v1/messages/batches",
        "/v1/message",
        "/v2/messages",
        "/x?next=/v1/messages",
        "/v1/messagesx",
    ],
)
def test_any_other_path_is_none_of_ours(path: str) -> None:
    assert adapter.for_path(path) is None


@pytest.mark.parametrize(
    ("path", "wire", "compacts"),
    [
        ("/v1/chat/completions", chat, False),
        ("/api/v1/chat/completions?x=1", chat, False),
        ("/v1/responses", responses, False),
        ("/backend-api/codex/responses", responses, False),
        ("/v1/responses/compact", responses, True),
        ("/backend-api/codex/responses/compact/", responses, True),
    ],
)
def test_a_path_of_the_other_wires_is_routed_whatever_stands_before_it(
    path: str, wire: ModuleType, compacts: bool
) -> None:
    route = adapter.for_path(path)
    assert route is not None
    assert route.adapter is wire
    assert route.compacts == compacts
    assert not route.counts
    assert route.valve is None
