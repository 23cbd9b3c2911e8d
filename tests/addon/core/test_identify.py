"""Hold session ids to the contract's sources in their order, and kinds of request to what clients send."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_addon.core import anthropic, identify
from openmem_addon.core.model import Conversation

from tests.conversations import TOOLS, body, encode, user

USER_JSON = json.dumps({"device_id": "d", "session_id": "from-json"})


def conversation(**more: Any) -> Conversation:
    return anthropic.parse(encode(body(user("go"), **more)))


FULL_HEADERS = {
    "x-openmem-session-id": "from-plugin",
    "x-claude-code-session-id": "from-claude",
    "session_id": "from-underscore",
    "x-session-id": "from-x",
    "conversation_id": "from-conversation",
}
FULL_BODY: dict[str, Any] = {
    "metadata": {"user_id": json.dumps({"session_id": "own"}) + "_session_12345678"},
    "prompt_cache_key": "own-key",
    "proxy_server_request": {"body": {"metadata": {"user_id": USER_JSON}, "prompt_cache_key": "original-key"}},
}

ORDER = [
    "from-plugin",
    "from-claude",
    "12345678",
    "from-json",
    "own-key",
    "original-key",
    "from-underscore",
    "from-x",
    "from-conversation",
]


def test_the_first_source_that_names_a_session_wins() -> None:
    """The contract's order: each source is taken away in turn, and the next one speaks."""
    headers = dict(FULL_HEADERS)
    more = json.loads(json.dumps(FULL_BODY))
    takers = [
        lambda: headers.pop("x-openmem-session-id"),
        lambda: headers.update({"x-claude-code-session-id": " \t"}),
        lambda: more["metadata"].update(user_id="nobody"),
        lambda: more["proxy_server_request"]["body"].pop("metadata"),
        lambda: more.update(prompt_cache_key=""),
        lambda: more["proxy_server_request"]["body"].pop("prompt_cache_key"),
        lambda: headers.pop("session_id"),
        lambda: headers.pop("x-session-id"),
        lambda: headers.pop("conversation_id"),
    ]
    for expected, take in zip([*ORDER], takers, strict=True):
        assert identify.session_id(headers, conversation(**more)) == expected
        take()
    assert identify.session_id(headers, conversation(**more)) is None


@pytest.mark.parametrize(
    ("user_id", "found"),
    [
        (USER_JSON, "from-json"),
        (json.dumps({"session_id": 7}), None),
        (json.dumps({"session_id": None}), None),
        (json.dumps({"session_id": ""}), None),
        (json.dumps(["session_id"]), None),
        ('{"session_id": "cut', None),
        ("user_abc_account__session_0a1b2c3d-0000", "0a1b2c3d-0000"),
        ("user_abc_session_1234567", None),
        ("user_abc_session_12345678_more", None),
        ("user_abc_session_12345678\n", None),
        ("", None),
        ('{"session_id": ' + "1" * 5000 + "}", None),
        ("[" * 100_000, None),
        ('{"session_id":"a\ud800b"}', "a_b"),
    ],
)
def test_a_user_id_names_a_session_by_json_or_by_its_ending(user_id: str, found: str | None) -> None:
    raw = json.dumps(body(user("go"), metadata={"user_id": user_id})).encode()
    assert identify.session_id({}, anthropic.parse(raw)) == found


@given(st.text(max_size=40))
def test_any_header_gives_a_safe_id_or_none(value: str) -> None:
    found = identify.session_id({"x-session-id": value}, conversation())
    assert found is None or (
        found and not set(found) - set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
    )


def identity(headers: dict[str, str], *, counts: bool = False, **more: Any) -> identify.Identity:
    found = identify.identify({"x-session-id": "s", **headers}, conversation(**more), counts=counts)
    assert found is not None
    return found


SCHEMA = {"output_config": {"format": {"type": "json_schema"}}}
CODEX = {"x-codex-turn-metadata": '{"request_kind":"turn"}', "x-codex-window-id": "u:0"}
KINDS: dict[str, tuple[dict[str, str], dict[str, Any], str, str]] = {
    "nothing said": ({}, {}, "main", "main"),
    "main": ({"x-claude-code-request-class": "main"}, {}, "main", "main"),
    "a subagent": (
        {"x-claude-code-request-class": "subagent", "x-claude-code-agent-id": "a2c6"},
        {},
        "subagent",
        "a2c6",
    ),
    "a subagent of no class": ({"x-claude-code-agent-id": "a/2"}, {}, "subagent", "a_2"),
    "a compaction": ({"x-claude-code-request-class": "compaction"}, {}, "compaction", "main"),
    "a compaction of class main": (
        {"x-claude-code-request-class": "main", "x-claude-code-compaction": "auto"},
        {},
        "compaction",
        "main",
    ),
    "an auxiliary request": ({"x-claude-code-request-class": "auxiliary"}, {}, "side", "main"),
    "a title": ({}, {"tools": [], **SCHEMA}, "side", "main"),
    "a title of class main": ({"x-claude-code-request-class": "main"}, {"tools": None, **SCHEMA}, "side", "main"),
    "a quota check": ({}, {"tools": None, "max_tokens": 1}, "side", "main"),
    "a schema beside tools": ({}, {"tools": [*TOOLS], **SCHEMA}, "main", "main"),
    "a turn of Codex": ({"session-id": "t", "thread-id": "t", **CODEX}, {}, "main", "main"),
    "a thread without a session": ({"thread-id": "t"}, {}, "main", "main"),
    "an agent of Codex": ({"session-id": "t", "thread-id": "u/2", **CODEX}, {}, "subagent", "u_2"),
    "an agent of Codex after a compaction": (
        {"session-id": "t", "thread-id": "u", "x-codex-window-id": "u:2"},
        {},
        "subagent",
        "u.2",
    ),
    "a later window": ({"session-id": "t", "thread-id": "t", "x-codex-window-id": "t:1"}, {}, "main", "main.1"),
    "a window that is none": ({"x-codex-window-id": "t:one"}, {}, "main", "main"),
    "a window that is negative": ({"x-codex-window-id": "t:-1"}, {}, "main", "main"),
    "a window past all": ({"x-codex-window-id": "t:" + "9" * 400}, {}, "main", "main"),
    "a compaction of Codex": (
        {"x-codex-turn-metadata": '{"request_kind":"compaction"}', "x-codex-window-id": "t:1"},
        {},
        "compaction",
        "main.1",
    ),
    "a compaction by its agent": ({"x-openai-subagent": "compact"}, {}, "compaction", "main"),
    "a prewarm": ({"x-codex-turn-metadata": '{"request_kind":"prewarm"}'}, {}, "side", "main"),
    "metadata that is none": ({"x-codex-turn-metadata": '{"request_kind":'}, {}, "main", "main"),
    "metadata of another form": ({"x-codex-turn-metadata": '{"request_kind":["prewarm"]}'}, {}, "main", "main"),
    "a subagent of OpenCode": ({"x-parent-session-id": "p"}, {}, "subagent", "main"),
    "a title of OpenCode": ({}, {"tools": None, "system": "You are a title generator. You output"}, "side", "main"),
    "a summary of OpenCode": (
        {},
        {"tools": None, "system": "Summarize what was done in this conversation. Write"},
        "side",
        "main",
    ),
    "a compaction of OpenCode": (
        {},
        {"tools": None, "system": "You are a context summarization agent. You are given"},
        "compaction",
        "main",
    ),
    "such words beside tools": ({}, {"system": "You are a title generator.", "tools": [*TOOLS]}, "main", "main"),
    "an unknown class": ({"x-claude-code-request-class": "new"}, {}, "main", "main"),
}


@pytest.mark.parametrize(("headers", "more", "kind", "lane"), KINDS.values(), ids=KINDS)
def test_a_request_is_of_its_kind_and_lane(headers: dict[str, str], more: dict[str, Any], kind: str, lane: str) -> None:
    found = identity(headers, **more)
    assert (found.kind, found.lane, found.sid) == (kind, lane, "s")
    assert identity(headers, counts=True, **more).kind == "count"


def test_a_later_window_knows_the_lanes_of_those_before_it() -> None:
    assert identity({"x-codex-window-id": "t:2"}).former == ("main.1", "main")
    assert identity({"session-id": "t", "thread-id": "u", "x-codex-window-id": "u:1"}).former == ("u",)
    assert identity({}).former == ()


def test_only_the_conversation_of_a_person_has_no_agent() -> None:
    assert identity({"session-id": "t", "thread-id": "t"}).agent is None
    assert identity({"session-id": "t", "thread-id": "u"}).agent == "u"
    assert identity({"x-claude-code-agent-id": "a2c6"}).agent == "a2c6"


@pytest.mark.parametrize("name", ["session-id", "thread-id", "x-client-request-id", "x-codex-window-id"])
def test_no_other_header_names_a_session(name: str) -> None:
    """Codex's session is its `prompt_cache_key`; a source more would part what the contract joins."""
    assert identify.session_id({name: "t"}, conversation()) is None


def test_a_client_that_compacted_says_so() -> None:
    assert identity({"x-claude-code-context-compacted": "auto"}).compacted
    assert not identity({}).compacted


def test_a_request_without_a_name_is_named_by_its_system_text_and_first_user_message() -> None:
    assert identify.identify({}, conversation(), counts=False) is None
    one = identify.derived({}, conversation(system="be brief"), counts=False)
    assert one.sid.startswith("fp-")
    assert len(one.sid) == 19
    grown = body(user("go"), {"role": "assistant", "content": "yes"}, user("more"), system="be brief")
    assert identify.derived({}, anthropic.parse(encode(grown)), counts=False).sid == one.sid
    assert identify.derived({}, conversation(system="be long"), counts=False).sid != one.sid


def test_a_request_without_a_name_is_still_of_its_kind() -> None:
    """A count or a title would else store rows and move the state of the session it resembles."""
    assert identify.derived({}, conversation(), counts=True).kind == "count"
    assert identify.derived({}, conversation(tools=[], **SCHEMA), counts=False).kind == "side"
    assert identify.derived({}, conversation(), counts=False).kind == "main"


@pytest.mark.parametrize(
    ("text", "wrapped"),
    [
        ("<system-reminder>x</system-reminder>", True),
        (" \n<system-reminder>\nx\n</system-reminder>\n<task-notification>y</task-notification>\n", True),
        ('<system-reminder kind="a">x</system-reminder>', True),
        ("<system-reminder>x</system-reminder> go", False),
        ("go <system-reminder>x</system-reminder>", False),
        ("<system-reminder>x", False),
        ("<system-reminder>x</task-notification>", False),
        ("<system-reminders>x</system-reminders>", False),
        ("<other>x</other>", False),
        ("", False),
        ("  ", False),
    ],
)
def test_a_text_is_wrapped_only_when_wholly_inside_the_tags_of_a_client(text: str, wrapped: bool) -> None:
    assert identify.is_wrapper(text) == wrapped


@given(st.text(alphabet="<>/sytem-rindabc \n", max_size=60))
def test_any_text_is_wrapped_or_not(text: str) -> None:
    assert identify.is_wrapper(f"<system-reminder>{text}</system-reminder>") or "</system-reminder>" in text
    identify.is_wrapper(text)
