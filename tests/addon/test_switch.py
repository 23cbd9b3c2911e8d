"""Hold `off` to stopping what is new and nothing else, from the very next request."""

from pathlib import Path

import pytest
from openmem_addon import switch
from openmem_addon.core import texts
from openmem_store.layout import Layout

from tests.addon.core.proxied import strings
from tests.addon.house import SID, House
from tests.conversations import body, chat, encode

SHORT, LONG, LONGER = (body(*chat(turns)[:-1]) for turns in (2, 10, 20))


def changed(forwarded: object) -> tuple[bool, bool]:
    """Return whether a request holds a pointer, and the instruction."""
    said = strings(forwarded)
    return "[openmem: continuing" in said, texts.STANDING_INSTRUCTION in said


@pytest.mark.parametrize("sid", [SID, None])
async def test_a_session_that_begins_while_off_is_stored_and_not_changed(house: House, sid: str | None) -> None:
    switch.turn(house.layout, sid, "off")
    outcome = await house.send(LONG)
    assert outcome.body == encode(LONG)
    house.answer(outcome)
    await house.settle()
    assert len(house.rows()) == len(LONG["messages"])


async def test_a_trimmed_session_keeps_its_view_and_gets_no_new_cut_until_on(house: House) -> None:
    await house.ask(LONG)
    switch.turn(house.layout, None, "off")
    assert changed(await house.ask(LONGER)) == (True, True)
    await house.settle()
    assert len(house.events("trim", "id")) == 1
    switch.turn(house.layout, None, "on")
    await house.ask(LONGER)
    await house.settle()
    assert len(house.events("trim", "id")) == 2


async def test_a_flag_raised_while_off_waits(house: House) -> None:
    await house.ask(SHORT)
    house.layout.force(SID).touch()
    switch.turn(house.layout, SID, "off")
    assert changed(await house.ask(body(*chat(4)[:-1]))) == (False, True)
    assert house.layout.force(SID).exists()


async def test_raw_passes_even_a_trimmed_session_as_it_comes_and_stores_nothing(house: House) -> None:
    await house.ask(LONG)
    await house.settle()
    stored = house.rows()
    switch.turn(house.layout, None, "raw")
    outcome = await house.send(LONGER)
    assert (outcome.body, outcome.ticket) == (encode(LONGER), None)
    await house.settle()
    assert house.rows() == stored


async def test_a_switch_of_one_session_is_not_that_of_another(house: House) -> None:
    switch.turn(house.layout, "other", "off")
    assert changed(await house.ask(LONG)) == (True, True)


@pytest.mark.parametrize(("value", "held"), [("1", True), ("0", False), ("", False)])
async def test_the_header_holds_one_request(house: House, value: str, held: bool) -> None:
    assert changed(await house.ask(LONG, headers={"x-openmem-bypass": value})) == (not held, not held)


async def test_the_request_after_a_bypassed_one_is_trimmed(house: House) -> None:
    await house.ask(SHORT)
    assert changed(await house.ask(LONG, headers={"x-openmem-bypass": "1"})) == (False, True)
    assert changed(await house.ask(LONG)) == (True, True)


def test_a_session_has_its_own_word_before_that_of_all(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    assert switch.read(layout, SID) == "on"
    assert switch.turn(layout, None, "off")
    assert switch.turn(layout, SID, "raw")
    assert (switch.read(layout, SID), switch.read(layout, "other")) == ("raw", "off")
    assert not switch.turn(layout, SID, "raw")
    assert switch.turn(layout, SID, "on")
    assert not switch.turn(layout, SID, "on")
    assert switch.read(layout, SID) == "off"
