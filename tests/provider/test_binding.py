"""Preserved thinking: the table "What counts as an edit" of the provider's page, and its outcomes."""

import copy

import pytest

from fixtures.provider import binding
from tests.provider.bodies import (
    CONTROLS,
    HEADERS,
    LATER,
    OLDER,
    READ,
    answered,
    body,
    changed,
    system,
    text,
    user,
)

THREE = answered(answered(answered(body(user("go"), system="be brief"), "one"), "two"), "three")
"""Three answers that thought, in messages 1, 3 and 5."""

DROP = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
REFUSE = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}


def without_thinking(request, *places):
    """Return the request without the thinking of the given messages."""
    less = copy.deepcopy(request)
    for at in places:
        found = less["messages"][at]["content"]
        less["messages"][at]["content"] = [block for block in found if block["type"] != "thinking"]
    return less


def edited(request, at, content):
    """Return the request with another content of one message."""
    other = copy.deepcopy(request)
    other["messages"][at]["content"] = content
    return other


VALID = {
    "nothing changed": THREE,
    "a message was appended": changed(THREE, messages=[*THREE["messages"], system("note")]),
    "a deferred tool was added": changed(THREE, tools=[READ, LATER]),
    "the oldest thinking was removed": without_thinking(THREE, 1),
    "the two oldest were removed": without_thinking(THREE, 1, 3),
    "the newest was removed": without_thinking(THREE, 5),
    "all was removed": without_thinking(THREE, 1, 3, 5),
    "a parameter changed": changed(THREE, output_config={"effort": "low"}, max_tokens=1),
    "a marker moved": edited(THREE, 0, [text("go", cache_control={"type": "ephemeral"})]),
}

INVALID = {
    "a tool was added": (changed(THREE, tools=[READ, {"name": "More"}]), (1, 0)),
    "the system prompt changed": (changed(THREE, system="be briefer"), (1, 0)),
    "the first message changed": (edited(THREE, 0, "go now"), (1, 0)),
    "a later message changed": (edited(THREE, 2, "and what then?"), (3, 0)),
    "an answer changed": (edited(THREE, 1, [THREE["messages"][1]["content"][0], text("another")]), (3, 0)),
    "a message was removed": (changed(THREE, messages=THREE["messages"][:3] + THREE["messages"][4:]), (4, 0)),
    "thinking in the middle was removed": (without_thinking(THREE, 3), (5, 0)),
}


@pytest.mark.parametrize("name", VALID)
def test_thinking_stays_valid_when(name):
    assert binding.check(VALID[name], HEADERS, account="new") == binding.Verdict()


@pytest.mark.parametrize("name", INVALID)
def test_thinking_is_refused_when(name):
    request, (at, part) = INVALID[name]
    refusal = binding.check(request, CONTROLS, account="new").refusal
    assert refusal is not None
    assert refusal.startswith(f"messages.{at}.content.{part}: Invalid `signature` in `thinking` block.")
    assert "bound to a different conversation" in refusal


def test_a_block_put_back_invalidates_what_was_thought_while_it_was_gone():
    gone = answered(without_thinking(THREE, 1, 3, 5), "four")
    assert binding.check(gone, HEADERS, account="new").refusal is None
    back = copy.deepcopy(gone)
    back["messages"][5] = THREE["messages"][5]
    refusal = binding.check(back, HEADERS, account="new").refusal
    assert refusal is not None
    assert refusal.startswith("messages.7.content.0:")


def test_thinking_after_an_edit_is_valid_while_the_edit_is_repeated():
    shorter = edited(without_thinking(THREE, 1, 3, 5), 0, "g")
    grown = answered(shorter, "four")
    assert binding.check(grown, HEADERS, account="new").refusal is None
    assert binding.check(edited(grown, 0, "go"), HEADERS, account="new").refusal is not None


def test_dropping_takes_the_failing_block_and_every_later_one_and_reports_them():
    request = changed(edited(THREE, 2, "changed"), thinking=DROP)
    verdict = binding.check(request, CONTROLS, account="new")
    assert verdict.refusal is None
    assert verdict.dropped == {(3, 0), (5, 0)}
    assert verdict.transformations == (
        {"type": "thinking_dropped", "path": "messages.3.content.0", "reason": "prefix_binding_mismatch"},
        {"type": "thinking_dropped", "path": "messages.5.content.0", "reason": "prefix_binding_mismatch"},
    )


def test_an_older_account_is_checked_only_where_the_request_asks():
    request = edited(THREE, 2, "changed")
    assert binding.check(request, HEADERS, account="older") == binding.Verdict()
    assert binding.check(changed(request, thinking=REFUSE), CONTROLS, account="older").refusal is not None
    assert binding.check(changed(request, thinking=DROP), CONTROLS, account="older").dropped


def test_an_older_account_is_told_which_blocks_fail_each_on_its_own():
    removed = without_thinking(THREE, 3)
    verdict = binding.check(removed, CONTROLS, account="older")
    assert (verdict.refusal, verdict.dropped) == (None, frozenset())
    assert verdict.transformations == (
        {
            "type": "thinking_mismatch_allowed",
            "path": "messages.5.content.0",
            "reason": "prefix_binding_mismatch",
        },
    )


def test_the_refusal_names_the_header_only_to_who_did_not_send_it():
    request = edited(THREE, 0, "changed")
    without = binding.check(request, HEADERS, account="new").refusal
    with_header = binding.check(request, CONTROLS, account="new").refusal
    assert without == f"{with_header} That setting requires the `{binding.BETA}` value in the " + (
        "`anthropic-beta` header."
    )


def test_older_models_and_a_manual_budget_do_not_check_the_prefix():
    request = edited(THREE, 0, "changed")
    assert binding.check(changed(request, model=OLDER), HEADERS, account="new").refusal is None
    manual = changed(request, thinking={"type": "enabled", "budget_tokens": 1024})
    assert binding.check(manual, HEADERS, account="new").refusal is None


@pytest.mark.parametrize("change", [{"signature": "c2ln"}, {"thinking": "another thought"}])
@pytest.mark.parametrize("model", ["claude-opus-5-5", OLDER])
def test_a_tampered_block_is_refused_by_every_model_and_never_dropped(change, model):
    request = changed(THREE, model=model, thinking=DROP)
    request["messages"][1]["content"][0].update(change)
    refusal = binding.check(request, CONTROLS, account="new").refusal
    assert refusal == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_redacted_thinking_is_bound_alike():
    signature, _ = binding.sign(body(user("go")), text="hidden", shown="", tokens=1)
    block = {"type": "redacted_thinking", "data": signature}
    kept = body(user("go"), {"role": "assistant", "content": [block, text("yes")]}, user("more"))
    assert binding.check(kept, HEADERS, account="new").refusal is None
    assert binding.check(changed(kept, system="new"), HEADERS, account="new").refusal is not None


@pytest.mark.parametrize(
    ("model", "runs"),
    [
        ("claude-opus-5-5", True),
        ("claude-haiku-5-5-20260901", True),
        ("claude-fable-5-2", True),
        ("claude-mythos-5-1", True),
        ("claude-opus-5", False),
        ("claude-sonnet-5-50", False),
        (None, False),
    ],
)
def test_which_models_run_the_check(model, runs):
    assert binding.checked(model) is runs
