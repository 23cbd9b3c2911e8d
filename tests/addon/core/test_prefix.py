"""What a request shares with the one before it is not read again; the outcome must be as if it were."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_addon.core import anthropic, chat, responses, rewrite
from openmem_addon.core.adapter import Adapter
from openmem_addon.core.model import Conversation
from openmem_addon.core.source import NotSplicable

Json = dict[str, Any]

LONG = "a line of a page\n" * 300


def exchange(wire: str, number: int, text: str) -> list[Json]:
    """Return one turn: a question, a call, its result and the answer."""
    call = f"call-{number}"
    if wire == "anthropic":
        return [
            {"role": "user", "content": text},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": f"thought {number}", "signature": "c2ln"},
                    {"type": "tool_use", "id": call, "name": "run", "input": {"n": number}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call, "content": text + LONG}]},
            {"role": "system", "content": f"note {number}"},
            {"role": "assistant", "content": [{"type": "text", "text": f"done {number}"}]},
        ]
    if wire == "chat":
        function = {"name": "run", "arguments": json.dumps({"n": number})}
        return [
            {"role": "user", "content": text},
            {"role": "assistant", "content": None, "function_call": function},
            {"role": "function", "name": "run", "content": text + LONG},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call, "type": "function", "function": function}],
            },
            {"role": "tool", "tool_call_id": call, "content": text},
            {"role": "assistant", "content": f"done {number}"},
        ]
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]},
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": "gAAAA"},
        {"type": "function_call", "call_id": call, "name": "run", "arguments": json.dumps({"n": number})},
        {"type": "function_call_output", "call_id": call, "output": text + LONG},
        {"type": "additional_tools", "tools": [{"type": "function", "name": f"tool{number}"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": f"done {number}"}]},
    ]


WIRES: dict[str, tuple[Adapter, str]] = {
    "anthropic": (anthropic, "messages"),  # type: ignore[dict-item]
    "chat": (chat, "messages"),  # type: ignore[dict-item]
    "responses": (responses, "input"),  # type: ignore[dict-item]
}


def body(key: str, items: list[Json], *, first: bool, spaced: bool) -> bytes:
    fields: Json = {"model": "m", key: items, "tools": [{"type": "function", "name": "run"}], "max_tokens": 9}
    if first:  # some clients write the conversation before all else
        fields = {key: fields.pop(key), **fields}
    text = json.dumps(fields, separators=None if spaced else (",", ":"), ensure_ascii=False)
    return text.replace("\ud83d", "\\ud83d").encode()


def proven(conversation: Conversation) -> Conversation:
    """Return what a conversation says, without how it was read."""
    return msgspec.structs.replace(conversation, reader=None, shared=0)


@pytest.mark.parametrize("wire", WIRES)
@given(data=st.data())
def test_reading_on_from_a_former_request_gives_what_reading_anew_gives(wire: str, data: st.DataObject):
    adapter, key = WIRES[wire]
    texts = data.draw(
        st.lists(st.sampled_from(["go on", "天気 🌤", 'a "quoted" \\ text', "\ud83d"]), min_size=1, max_size=5)
    )
    items = [item for number, text in enumerate(texts) for item in exchange(wire, number, text)]
    style = {"first": data.draw(st.booleans()), "spaced": data.draw(st.booleans())}
    former_items = items[: data.draw(st.integers(1, len(items)))]
    later_items = [dict(item) for item in items[: data.draw(st.integers(1, len(items)))]]
    if data.draw(st.booleans()):
        later_items[data.draw(st.integers(0, len(later_items) - 1))]["moved"] = True
    former_body = body(key, former_items, **style)
    later_body = body(key, later_items, **style)
    former = adapter.parse(former_body)
    resumed, anew = adapter.parse(later_body, former), adapter.parse(later_body)
    assert proven(resumed) == proven(anew)
    rows = rewrite._rows(former, ())
    assert rewrite._rows(resumed, rows) == rewrite._rows(anew, ())
    assert resumed.items[: resumed.shared] == former.items[: resumed.shared]


@pytest.mark.parametrize("wire", WIRES)
def test_only_what_is_new_is_read(wire: str):
    adapter, key = WIRES[wire]
    items = [item for number in range(20) for item in exchange(wire, number, "go on")]
    former = adapter.parse(body(key, items[:-4], first=False, spaced=False))
    resumed = adapter.parse(body(key, items, first=False, spaced=False), former)
    assert resumed.shared == len(items) - 4
    assert all(new is old for new, old in zip(resumed.items, former.items, strict=False))


@pytest.mark.parametrize("wire", WIRES)
def test_another_wires_request_is_no_former_one(wire: str):
    adapter, key = WIRES[wire]
    items = exchange(wire, 0, "go on") + exchange(wire, 1, "go on")
    text = body(key, items, first=False, spaced=False)
    for other, (stranger, strange_key) in WIRES.items():
        if other != wire:
            former = stranger.parse(body(strange_key, exchange(other, 0, "go on"), first=False, spaced=False))
            assert proven(adapter.parse(text, former)) == proven(adapter.parse(text))


@pytest.mark.parametrize("ending", [b"", b"]", b"],", b',{"role":1}]}', b"]}x", b',"broken'])
def test_a_body_that_breaks_behind_the_known_part_is_refused_all_the_same(ending: bytes):
    items = exchange("anthropic", 0, "go on") + exchange("anthropic", 1, "go on")
    whole = b'{"messages":' + json.dumps(items).encode() + b"}"
    former = anthropic.parse(whole)
    with pytest.raises(NotSplicable):
        anthropic.parse(whole[:-2] + ending, former)
