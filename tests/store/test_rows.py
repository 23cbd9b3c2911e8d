import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_store.rows import KINDS, ROLES, Draft, chain, fingerprint, storable

GOLDEN = json.loads((Path(__file__).parents[2] / "fixtures/fingerprints.json").read_text())

drafts = st.lists(
    st.builds(
        Draft, st.sampled_from(ROLES), st.sampled_from(KINDS), st.none() | st.text(max_size=3), st.text(max_size=5)
    ),
    max_size=8,
)


def test_the_chain_names_rows_as_the_golden_file_says() -> None:
    cases = GOLDEN["chain"]
    rows = chain(Draft(case["role"], case["kind"], case["name"], case["text"]) for case in cases)
    assert [row.fingerprint for row in rows] == [case["fingerprint"] for case in cases]
    assert {row.thread for row in rows} == {cases[0]["fingerprint"]}


@pytest.mark.parametrize("case", GOLDEN["values"], ids=lambda case: case["fingerprint"])
def test_a_lone_surrogate_enters_a_fingerprint_as_its_escape(case: dict[str, str]) -> None:
    assert fingerprint(case["value"]) == case["fingerprint"]


@pytest.mark.parametrize("case", GOLDEN["chain"] + GOLDEN["values"], ids=lambda case: case["fingerprint"])
def test_the_golden_fingerprints_are_hashes_of_their_written_json(case: dict[str, str]) -> None:
    """The golden values must not come from the code they check."""
    assert hashlib.sha256(case["canonical"].encode()).hexdigest()[:32] == case["fingerprint"]


def test_an_empty_conversation_has_no_rows() -> None:
    assert chain([]) == ()


@given(drafts)
def test_a_longer_history_keeps_the_names_of_its_beginning(history: list[Draft]) -> None:
    rows = chain(history)
    for length in range(len(history)):
        assert chain(history[:length]) == rows[:length]
    assert len({row.fingerprint for row in rows}) == len(rows)


@given(drafts.filter(bool), st.data())
def test_a_changed_message_renames_itself_and_all_that_follow(history: list[Draft], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(history) - 1))
    old = history[place]
    changed = [*history[:place], Draft(old.role, old.kind, old.name, old.text + "!"), *history[place + 1 :]]
    before = [row.fingerprint for row in chain(history)]
    after = [row.fingerprint for row in chain(changed)]
    assert before[:place] == after[:place]
    assert not set(before[place:]) & set(after[place:])


@pytest.mark.parametrize(
    ("text", "stored"),
    [("plain", "plain"), ("🌤", "🌤"), ("a\ud83dz", "a\ufffdz"), ("\udc80\udc81", "\ufffd\ufffd"), ("", "")],
)
def test_storable_text_has_one_replacement_character_for_each_lone_surrogate(text: str, stored: str) -> None:
    assert storable(text) == stored
    assert len(storable(text)) == len(text)
