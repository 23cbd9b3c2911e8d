"""When two prefixes are the same."""

import pytest

from fixtures.provider import canonical, wire
from tests.provider.bodies import LATER, MARK, READ, assistant, body, changed, result, text, use, user

WRITE = {"name": "Write", "input_schema": {"type": "object"}}
BASE = body(user("go"), assistant(use()), user(result()), system="be brief", tools=[READ, WRITE])

SAME = {
    "markers": body(
        user(text("go", cache_control=MARK)),
        assistant(use()),
        user(result(cache_control=MARK)),
        system=[text("be brief", cache_control=MARK)],
        tools=[{**READ, "cache_control": MARK}, WRITE],
    ),
    "blocks for strings": changed(
        BASE, messages=[user(text("go")), assistant(use()), user(result(content=[text("done")]))]
    ),
    "the billing block": changed(BASE, system=[text(f"{wire.BILLING} cch=1f;"), text("be brief")]),
    "a deferred tool": changed(BASE, tools=[LATER, READ, WRITE]),
    "the order of tools": changed(BASE, tools=[WRITE, READ]),
    "other parameters": changed(BASE, max_tokens=7, output_config={"effort": "low"}),
}

DIFFERENT = {
    "an added tool": changed(BASE, tools=[READ, WRITE, {"name": "More"}]),
    "an edited tool": changed(BASE, tools=[{**READ, "description": "reads"}, WRITE]),
    "the system prompt": changed(BASE, system="be very brief"),
    "a shortened result": changed(BASE, messages=[*BASE["messages"][:2], user(result(content="d"))]),
    "a removed message": changed(BASE, messages=BASE["messages"][1:]),
    "an added block": changed(BASE, messages=[user("go", "now"), *BASE["messages"][1:]]),
    "another input": changed(
        BASE, messages=[BASE["messages"][0], assistant(use(input={"path": "b"})), BASE["messages"][2]]
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_what_moves_by_itself_leaves_the_prefix_the_same(name):
    assert canonical.prefixes(SAME[name]) == canonical.prefixes(BASE)


@pytest.mark.parametrize("name", DIFFERENT)
def test_an_edit_changes_the_prefix(name):
    assert canonical.prefixes(DIFFERENT[name])[-1] != canonical.prefixes(BASE)[-1]


def test_an_edit_leaves_the_prefixes_before_it():
    edited = canonical.prefixes(DIFFERENT["a shortened result"])
    whole = canonical.prefixes(BASE)
    assert edited[:3] == whole[:3]
    assert edited[3] != whole[3]


def test_thinking_is_no_part_of_a_prefix():
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    with_thinking = changed(BASE, messages=[user("go"), assistant(thought, use()), user(result())])
    assert canonical.prefixes(with_thinking) == canonical.prefixes(BASE)


def test_a_lone_surrogate_is_named_like_any_text():
    assert canonical.prefixes(body(user("a\udc97b"))) != canonical.prefixes(body(user("a\ufffdb")))
