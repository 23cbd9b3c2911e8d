"""Reading a request."""

from fixtures.provider import wire
from tests.provider.bodies import MARK, assistant, body, result, system, text, user


def test_a_string_is_one_text_block_and_nothing_is_none():
    assert wire.blocks("go") == [text("go")]
    assert wire.blocks(None) == []
    assert wire.blocks([]) == []


def test_the_billing_block_is_no_part_of_the_system_prompt():
    billing = text(f"{wire.BILLING} cc_version=1.2.3; cch=00000;")
    assert wire.system(body(user("go"), system=[billing, text("be brief")])) == [text("be brief")]
    assert wire.system(body(user("go"), system="be brief")) == [text("be brief")]


def test_neighbours_of_one_role_are_one_turn_across_system_messages():
    request = body(user("one"), user("two"), system("note"), assistant("yes"), user("three"))
    assert [(turn.index, turn.role, len(turn.blocks)) for turn in wire.turns(request)] == [
        (0, "user", 2),
        (3, "assistant", 1),
        (4, "user", 1),
    ]


def test_markers_come_in_the_order_tools_system_messages():
    inner = result(content=[text("a", cache_control=MARK)], cache_control=MARK)
    request = body(
        user(text("go", cache_control=MARK)),
        user(inner),
        system=[text("be brief", cache_control=MARK)],
        tools=[{"name": "Read", "cache_control": MARK}],
    )
    assert [path for path, _ in wire.markers(request)] == [
        "tools.0",
        "system.0",
        "messages.0.content.0",
        "messages.1.content.0.content.0",
        "messages.1.content.0",
    ]


def test_only_a_system_message_without_content_that_sets_something_is_a_directive():
    assert wire.directive_only(system([], output_config={"effort": "low"}))
    assert not wire.directive_only(system([]))
    assert not wire.directive_only(system("note", output_config={"effort": "low"}))


def test_beta_values_are_read_whatever_their_spacing():
    assert wire.betas({"anthropic-beta": "one,two , three,"}) == {"one", "two", "three"}
    assert wire.betas({}) == frozenset()


def test_json_is_compact_utf_8_and_a_lone_surrogate_stays_an_escape():
    assert wire.encoded({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()
    assert wire.encoded("a\ud83d") == b'"a\\ud83d"'
