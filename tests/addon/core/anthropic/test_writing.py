"""Hold the writing of the Anthropic wire to touching only what it must."""

import json

import pytest
from openmem_addon.core import source, texts

from fixtures.provider.wire import Json
from tests.addon.core.anthropic.made import rendered
from tests.addon.core.proxied import decoded, refusal
from tests.conversations import (
    MARK,
    assistant,
    body,
    encode,
    result,
    system,
    text,
    thinking,
    use,
    user,
)

ODDLY = (
    '{ "zulu":0.10,"messages" : [ {"content":"go","role":"user","x":1E5} ,\n\t'
    '{"role":"assistant","content":[{"type":"thinking","thinking":"","signature":"s/\\/=","k":-0},'
    '{"type":"text","text":"\\u0041\\/\\ud83d","n":[1.0,  2]}]},'
    ' {"role":"user","content":[{"type":"text","text":"more 家"}]} ],\n'
    '"system" : "be \\ud800 brief" ,"model":"m","max_tokens":1000,"unknown":{"b":1,"a":{"a":[]}}, "tools":[]}\n'
).encode()


def test_a_body_that_nothing_changes_is_the_same_bytes() -> None:
    assert rendered(ODDLY) is not None
    assert rendered(ODDLY) == ODDLY


def test_an_instruction_goes_into_the_system_text_and_every_other_byte_stays() -> None:
    block = json.dumps({"type": "text", "text": texts.STANDING_INSTRUCTION}, ensure_ascii=False, separators=(",", ":"))
    made = rendered(ODDLY, instruct=True)
    assert made == ODDLY.replace(
        b'"be \\ud800 brief"', b'[{"type":"text","text":"be \\ud800 brief"},' + block.encode() + b"]"
    )


def test_a_note_makes_a_list_of_a_string_and_every_other_byte_stays() -> None:
    made = rendered(ODDLY, note='see "x"\n', noted=0)
    start, stop = source.members(source.readable(ODDLY))["messages"]
    assert made[:start] == ODDLY[:start]
    assert made.endswith(ODDLY[stop:])
    first, *rest = source.elements(source.readable(made[start : len(made) - len(ODDLY) + stop]))
    piece = made[start : len(made) - len(ODDLY) + stop]
    assert piece[slice(*first)] == (
        b'{"content":[{"type":"text","text":"see \\"x\\"\\n"},{"type":"text","text":"go"}],"role":"user","x":1E5}'
    )
    kept = source.elements(source.readable(ODDLY[start:stop]))[1:]
    assert [piece[a:b] for a, b in rest] == [ODDLY[start:stop][a:b] for a, b in kept]


def test_stripping_takes_signed_blocks_and_leaves_the_bytes_of_the_others() -> None:
    made = rendered(ODDLY, stripped=frozenset({1}))
    assert b'{"role":"assistant","content":[{"type":"text","text":"\\u0041\\/\\ud83d","n":[1.0,  2]}]}' in made
    assert b"signature" not in made


def test_an_emptied_message_keeps_a_place_with_words() -> None:
    raw = encode(body(user("go"), system("note"), assistant(thinking()), user("more")))
    made = decoded(rendered(raw, stripped=frozenset({2}), emptied=frozenset({2})))
    assert made["messages"][2] == assistant("[no text]")


SYSTEMS: dict[str, tuple[Json, list[Json]]] = {
    "a string": ({"system": "be brief"}, [text("be brief")]),
    "marked blocks": (
        {"system": [text("a"), text("b", cache_control=MARK)]},
        [text("a"), text("b", cache_control=MARK)],
    ),
    "no blocks": ({"system": []}, []),
    "an empty string": ({"system": ""}, []),
    "nothing": ({}, []),
}


@pytest.mark.parametrize(("head", "blocks"), SYSTEMS.values(), ids=SYSTEMS)
def test_the_instruction_stands_last_and_once_in_every_shape_of_system(head: Json, blocks: list[Json]) -> None:
    once = rendered(encode(body(user("go"), **head)), instruct=True)
    assert decoded(once)["system"] == [*blocks, text(texts.STANDING_INSTRUCTION)]
    assert rendered(once, instruct=True) == once
    assert refusal(decoded(once)) is None


def test_a_null_system_becomes_the_instruction_alone() -> None:
    raw = encode(body(user("go"))).replace(b'"model"', b'"system": null ,"model"')
    assert decoded(rendered(raw, instruct=True))["system"] == [text(texts.STANDING_INSTRUCTION)]


def test_a_compressed_result_keeps_the_shape_of_its_content() -> None:
    results = [
        result("a", "long", is_error=True),
        result("b", [text("long", cache_control=MARK, note=1)]),
        result("c", [text("one"), text("two")], cache_control=MARK),
    ]
    raw = encode(body(user("go"), assistant(use("a"), use("b"), use("c")), user(*results, "so")))
    made = decoded(rendered(raw, compressed={2: {0: "short é", 1: "short", 2: "both"}}))
    assert made["messages"][2]["content"] == [
        result("a", "short é", is_error=True),
        result("b", [text("short", cache_control=MARK, note=1)]),
        result("c", [text("both")], cache_control=MARK),
        text("so"),
    ]


MOVED = [user("go"), system("early", output_config={"effort": "high"}), assistant("yes"), user("more")]


def test_a_moved_system_message_follows_the_cut_turn_with_its_parameters() -> None:
    raw = encode(body(*MOVED, assistant("so"), user("end")))
    made = decoded(rendered(raw, kept=(0, 3, 4, 5), moved=(1,), moved_after=3))
    assert made["messages"] == [MOVED[0], MOVED[3], MOVED[1], assistant("so"), user("end")]


def test_a_moved_system_message_opens_the_one_that_follows_the_cut_turn() -> None:
    raw = encode(body(*MOVED, system(text("late", cache_control=MARK)), assistant("so"), user("end")))
    made = decoded(rendered(raw, kept=(0, 3, 4, 5, 6), moved=(1,), moved_after=3))
    joined = system(text("early"), text("late", cache_control=MARK), output_config={"effort": "high"})
    assert made["messages"] == [MOVED[0], MOVED[3], joined, assistant("so"), user("end")]


def test_a_moved_system_message_may_end_the_request() -> None:
    made = decoded(rendered(encode(body(*MOVED)), kept=(0, 3), moved=(1,), moved_after=3))
    assert made["messages"] == [MOVED[0], MOVED[3], MOVED[1]]
