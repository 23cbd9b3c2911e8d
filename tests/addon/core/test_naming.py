"""Hold the fields that name a session to one reading on every wire, whatever type a client gives them."""

import json
from typing import Any

import msgspec
import pytest
from openmem_addon.core import identify
from openmem_addon.core.naming import Named

from tests.forwarding import route, session_of
from tests.wires import WIRES, User, Wire, request

each_wire = pytest.mark.parametrize("wire", WIRES)


def body(wire: Wire, **more: Any) -> bytes:
    return json.dumps(request(wire, [User("hello")]) | more).encode()


def named(**more: Any) -> Named:
    return msgspec.convert(more, Named)


def user(session: object) -> dict[str, str]:
    return {"user_id": json.dumps({"device_id": "d", "session_id": session})}


ORIGINAL = {"body": {"metadata": user("of-the-original"), "prompt_cache_key": "key-of-the-original"}}

SOURCES: list[tuple[dict[str, Any], dict[str, str], str | None]] = [
    ({}, {"x-openmem-session-id": " s-1 "}, "s-1"),
    ({"metadata": user("s-2")}, {"x-openmem-session-id": "s-1", "x-claude-code-session-id": "s-3"}, "s-1"),
    ({"metadata": user("s-2")}, {"x-claude-code-session-id": "s-3"}, "s-3"),
    ({"metadata": user("s-2")}, {"x-claude-code-session-id": " "}, "s-2"),
    ({"metadata": user("s-2"), "prompt_cache_key": "k"}, {}, "s-2"),
    ({"metadata": user("s-2"), "proxy_server_request": ORIGINAL}, {}, "s-2"),
    ({"proxy_server_request": ORIGINAL}, {}, "of-the-original"),
    ({"metadata": {"user_id": "user_1_account_2_session_0123-abcd"}}, {}, "0123-abcd"),
    ({"metadata": {"user_id": "user_1_session_short"}, "prompt_cache_key": "k"}, {}, "k"),
    ({"metadata": user(7), "prompt_cache_key": "k"}, {}, "k"),
    ({"metadata": {"user_id": 7}, "prompt_cache_key": "k"}, {}, "k"),
    ({"metadata": {}, "prompt_cache_key": "k"}, {}, "k"),
    ({"prompt_cache_key": "k"}, {"session_id": "h"}, "k"),
    ({"prompt_cache_key": "k", "proxy_server_request": {"body": {"prompt_cache_key": "o"}}}, {}, "k"),
    ({"prompt_cache_key": None, "proxy_server_request": {"body": {"prompt_cache_key": "o"}}}, {"session_id": "h"}, "o"),
    ({"prompt_cache_key": 7}, {"conversation_id": "c", "x-session-id": "x", "session_id": "h"}, "h"),
    ({}, {"conversation_id": "c", "x-session-id": "x"}, "x"),
    ({}, {"conversation_id": "c/../d"}, "c_.._d"),
    ({"proxy_server_request": {"body": None}}, {}, None),
    ({}, {}, None),
]
"""Fields of the body, headers, and the session they name: the first source that says one, in the contract's order."""


@each_wire
@pytest.mark.parametrize(("fields", "headers", "session"), SOURCES)
def test_the_first_source_that_says_a_session_names_it(
    wire: Wire, fields: dict[str, Any], headers: dict[str, str], session: str | None
) -> None:
    assert session_of(wire, body(wire, **fields), headers) == session


@each_wire
def test_a_request_that_no_source_names_is_named_by_its_beginning(wire: Wire) -> None:
    conversation = route(wire).adapter.parse(body(wire))
    assert conversation.identity == "You are an agent.\nhello"
    assert identify.derived({}, conversation, counts=False).sid == "fp-e5346775bf3ea870"


@pytest.mark.parametrize(
    ("fields", "users"),
    [
        ({"metadata": {"user_id": "a"}}, ("a",)),
        ({"metadata": {"user_id": "a"}, "proxy_server_request": {"body": {"metadata": {"user_id": "b"}}}}, ("a", "b")),
        ({"proxy_server_request": {"body": {"metadata": {"user_id": "b"}}}}, ("b",)),
        ({"metadata": {"user_id": ["a"]}, "proxy_server_request": {"body": {"metadata": None}}}, ()),
        ({}, ()),
    ],
)
def test_the_request_speaks_before_its_original(fields: dict[str, Any], users: tuple[str, ...]) -> None:
    assert named(**fields).users() == users


def test_a_cache_key_of_another_type_is_no_name() -> None:
    original = {"body": {"prompt_cache_key": {"a": 1}}}
    assert named(prompt_cache_key=["k"], proxy_server_request=original).cache_keys() == ()
