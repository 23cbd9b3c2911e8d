"""Hold the booking of answers: once each, and a refusal undoes only what its own request set."""

import msgspec
import pytest
from openmem_addon.booking import Shown, Ticket
from openmem_addon.core.usage import Usage
from openmem_addon.core.view import Sample, Sent, Tail, Thread, View
from openmem_store.rows import Draft, chain

from tests.addon.house import NOW, SID, House
from tests.conversations import body, user
from tests.forwarding import WIDE

BEFORE, SENT, LATER = Sent(1, "a"), Sent(3, "b"), Sent(5, "c")
KEY = "main/root"


async def flying(house: House, **more: object) -> Ticket:
    """Return the ticket of a request under way in a session that is ours."""
    outcome = await house.send(body(user("go")))
    assert outcome.ticket is not None
    state = outcome.ticket.session.state
    state.threads[KEY] = Thread(base=View(), sent=SENT)
    return msgspec.structs.replace(outcome.ticket, **{"key": KEY, "before": BEFORE, "sent": SENT, **more})


@pytest.mark.parametrize(("now", "then"), [(SENT, BEFORE), (LATER, LATER)], ids=["the last", "one before the last"])
async def test_a_refusal_undoes_what_its_request_set_and_nothing_later(house: House, now: Sent, then: Sent) -> None:
    ticket = await flying(house)
    state = ticket.session.state
    state.threads[KEY] = msgspec.structs.replace(state.threads[KEY], sent=now)
    house.sessions.booking.refused(ticket)
    assert state.threads[KEY].sent == then
    assert ticket.session.flights == 0
    await house.settle()
    assert house.state().threads[KEY].sent == then


async def test_a_refusal_of_a_thread_that_is_gone_is_only_landed(house: House) -> None:
    ticket = await flying(house, key="main/gone")
    house.sessions.booking.refused(ticket)
    assert ticket.session.flights == 0
    await house.settle()


async def test_an_answer_calibrates_by_thread_and_model(house: House) -> None:
    ticket = await flying(house, model="m", chars=4000, media=7)
    house.sessions.booking.answered(ticket, Usage(100, 20, 3, 9))
    await house.settle()
    assert house.state().sample(KEY, "m") == Sample(123, 4000, 7)


@pytest.mark.parametrize(("billed", "until"), [(True, NOW.timestamp() + 300), (False, 0)], ids=["asked", "counted"])
async def test_what_was_answered_stays_in_the_cache_for_as_long_as_it_asked(
    house: House, billed: bool, until: float
) -> None:
    shown = Shown(KEY, View(), msgspec.structs.replace(WIDE, sid=SID))
    ticket = await flying(house, shown=shown, cache_seconds=300, billed=billed)
    house.sessions.booking.answered(ticket, Usage(1))
    await house.settle()
    assert house.state().threads[KEY].warm_until == until


@pytest.mark.parametrize("usage", [Usage(), Usage(None, 5, 5), Usage(0), Usage(20_000_001)])
async def test_an_answer_without_a_credible_prompt_calibrates_nothing(house: House, usage: Usage) -> None:
    ticket = await flying(house, model="m")
    house.sessions.booking.answered(ticket, usage)
    await house.settle()
    assert house.state().sample(KEY, "m") is None
    assert len(house.events("usage", "id")) == 1


async def test_an_answer_the_provider_keeps_can_be_continued(house: House) -> None:
    ticket = await flying(house, root="root", kept=Tail(KEY, "f"))
    said = (Draft("assistant", "text", None, "yes"),)
    house.sessions.booking.answered(ticket, Usage(5, response_id="resp_1", output=said))
    await house.settle()
    last = chain(said, previous="f", thread="root")[-1].fingerprint
    assert house.state().tails == {"resp_1": Tail(KEY, last)}


async def test_an_answer_to_a_request_that_moves_nothing_writes_no_state(house: House) -> None:
    ticket = await flying(house, key=None)
    await house.settle()
    before = house.layout.trim(SID).read_bytes()
    house.sessions.booking.answered(ticket, Usage(5))
    await house.settle()
    assert house.layout.trim(SID).read_bytes() == before
    assert len(house.events("usage", "id")) == 1
