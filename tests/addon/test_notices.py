"""Hold the proxy to leaving word of what a person should know, once, and in whole lines."""

import stat
from pathlib import Path

import msgspec
from openmem_addon import notices
from openmem_addon.notices import Trimmed, Untrimmed
from openmem_store.layout import Layout

from tests.addon.house import SID, House
from tests.conversations import body, chat

LONG = body(*chat(10)[:-1])
BLIND = LONG | {"tools": []}


def left(house: House) -> list[dict[str, int]]:
    path = house.layout.notice(SID)
    return [msgspec.json.decode(line) for line in path.read_bytes().splitlines()] if path.exists() else []


async def test_a_trim_leaves_what_it_moved_and_what_it_kept(house: House) -> None:
    forwarded = await house.ask(LONG)
    await house.settle()
    [(before, after)] = house.events("trim", "tokens_before, tokens_after")
    assert left(house) == [{"moved": before - after, "kept": len(forwarded["messages"])}]


async def test_a_session_that_outgrew_its_threshold_without_tools_is_named_once(house: House) -> None:
    await house.ask(BLIND)
    await house.ask(body(*chat(12)[:-1]) | {"tools": []})
    await house.settle()
    [notice] = left(house)
    assert notice["untrimmed"] >= house.settings.trim_tokens
    assert house.state().told_untrimmed


async def test_one_under_its_threshold_is_not_named(house: House) -> None:
    await house.ask(body(*chat(2)[:-1]) | {"tools": []})
    await house.settle()
    assert left(house) == []


def test_lines_are_added_for_the_owner_alone(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.prepare()
    for notice in (Trimmed(moved=1, kept=2), Untrimmed(untrimmed=3)):
        notices.leave(layout, SID, notice)
    assert layout.notice(SID).read_bytes() == b'{"moved":1,"kept":2}\n{"untrimmed":3}\n'
    assert stat.S_IMODE(layout.notice(SID).stat().st_mode) == 0o600
