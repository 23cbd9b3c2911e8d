"""Hold a new thread to where it comes from: what it is shown, and the rows whose flags it moves."""

from typing import Any

import msgspec
import pytest
from openmem_addon.ancestry import Ancestry, replaced
from openmem_addon.core import anthropic, rewrite
from openmem_addon.core.identify import Identity
from openmem_addon.core.model import Conversation
from openmem_addon.core.rewrite import Rewrite
from openmem_addon.core.view import Sample
from openmem_addon.storage import Session, Storage

from fixtures.provider.wire import Json
from tests.addon.house import NOW, SID, House
from tests.conversations import assistant, body, chat, encode, user
from tests.forwarding import WIDE

ASKED = body(*chat(1), user("more"))


@pytest.fixture
def storage(house: House) -> Storage:
    return Storage(house.layout, house.queue, disk=house.disk, log=house.lines.append, now=lambda: NOW)


@pytest.fixture
def ancestry(house: House, storage: Storage) -> Ancestry:
    return Ancestry(storage, house.workers)


async def opened(storage: Storage, sid: str = SID) -> Session:
    session = Session(sid)
    await storage.prepare(session)
    return session


def parsed(request: Json) -> Conversation:
    return anthropic.parse(encode(request))


def decided(request: Json) -> Rewrite:
    return rewrite.decide(parsed(request), None, WIDE, sample=None)


async def kept(storage: Storage, session: Session, request: Json, lane: str = "main") -> str:
    """Make a request's thread one of a session, on disk too; return its key."""
    made = decided(request)
    key = f"{lane}/{made.root}"
    await storage.save(session, key, made.thread, must=True, wait=True)
    return key


async def test_a_fork_inside_a_session_is_found_with_what_calibrates_it(storage: Storage, ancestry: Ancestry) -> None:
    session = await opened(storage)
    key = await kept(storage, session, ASKED)
    session.state.calibrate(key, "m", Sample(5, 6, 7))
    fork = key.replace("main/", "agent/")
    assert await ancestry.inherited(session, parsed(ASKED), fork) == session.state.threads[key]
    assert session.state.sample(fork, "m") == Sample(5, 6, 7)


async def test_a_fork_under_another_name_is_found_on_disk_behind_those_of_the_session(
    storage: Storage, ancestry: Ancestry
) -> None:
    one, other = await opened(storage, "s-1"), await opened(storage, "s-2")
    key = await kept(storage, one, ASKED)
    assert await ancestry.inherited(other, parsed(ASKED), key) == one.state.threads[key]
    assert other.state.samples == {}
    own = await kept(storage, other, ASKED, lane="agent")
    marked = msgspec.structs.replace(other.state.threads[own], owned=3)
    other.state.publish(own, marked)
    assert await ancestry.inherited(other, parsed(ASKED), key) == marked


async def test_a_history_without_a_reply_comes_from_nowhere(storage: Storage, ancestry: Ancestry) -> None:
    session = await opened(storage)
    request = body(user("question 0"))
    assert await ancestry.inherited(session, parsed(request), await kept(storage, session, request)) is None


@pytest.mark.parametrize(("stored", "known"), [(True, False), (False, False), (True, True)])
async def test_a_thread_is_forgotten_where_its_replies_are_stored_and_its_state_is_not_there(
    house: House, storage: Storage, ancestry: Ancestry, stored: bool, known: bool
) -> None:
    session = await opened(storage)
    made = decided(ASKED)
    if stored:
        storage.follow(session, made, made.thread)
    if known:
        await kept(storage, session, ASKED, lane="agent")
    await house.settle()
    assert await ancestry.forgotten(session, "main", made.root or "", made) == (stored and not known)


async def test_rows_that_another_lane_stored_first_are_that_lanes(
    house: House, storage: Storage, ancestry: Ancestry
) -> None:
    session = await opened(storage)
    first = decided(ASKED)
    key = await kept(storage, session, ASKED)
    storage.follow(session, first, first.thread)
    await house.settle()
    longer = decided(body(*ASKED["messages"], assistant("so"), user("next")))
    assert await ancestry.owned(session, longer, None, longer.root or "") == 3
    session.state.publish(key, msgspec.structs.replace(session.state.threads[key], owned=1))
    assert await ancestry.owned(session, longer, key, longer.root or "") == 1
    assert await ancestry.owned(session, longer, "main/other", longer.root or "") == 3


MAIN = {"sid": SID, "agent": None, "kind": "main", "compacted": False}


@pytest.mark.parametrize(
    ("identity", "compacting", "latest", "former"),
    [
        ({}, set(), {"main": "main/old"}, None),
        ({"compacted": True}, set(), {"main": "main/old"}, "main/old"),
        ({}, {"main"}, {"main": "main/old"}, "main/old"),
        ({}, {"agent"}, {"main": "main/old"}, None),
        ({"compacted": True}, set(), {"main": "main/new"}, None),
        ({"window": 2}, set(), {"main": "main/old"}, "main/old"),
        ({"window": 2}, set(), {"main": "main/old", "main.1": "main.1/later"}, "main.1/later"),
        ({"window": 2}, set(), {"main.2": "main.2/old"}, None),
        ({"agent": "a"}, set(), {"main": "main/old"}, None),
    ],
)
def test_a_client_that_compacted_replaces_its_latest_thread(
    identity: dict[str, Any], compacting: set[str], latest: dict[str, str], former: str | None
) -> None:
    session = Session(SID)
    session.compacting, session.state.latest = compacting, latest
    assert replaced(session, Identity(**{**MAIN, **identity}), "main/new") == former
