"""Hold what a session's file says of its costs to the order of time, and to what may count for us."""

import os
from pathlib import Path

import pytest
from openmem_addon.commands import account
from openmem_addon.commands.account import FORM
from openmem_addon.commands.pricing import Counts
from openmem_addon.commands.savings import Call, Event, Shift, Trim
from openmem_store import blobs, events
from openmem_store.layout import Layout
from openmem_store.reader import source
from openmem_store.rows import Draft, Row, chain
from openmem_store.writer import SessionWriter

AT = "2026-11-01T10:00:0{}Z"
BEGAN = 1_793_527_200
"""Seconds since the epoch at the first of them."""

SEARCH = "mcp__openmem__smart_compact_search"
LONG = "x" * (FORM + 4_000)


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.prepare()
    return made


class Session:
    """A session's file, written as a proxy would."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.writer = SessionWriter(layout.database("s"), version="v")
        self.drafts: list[Draft] = []

    @property
    def rows(self) -> list[Row]:
        return list(chain(self.drafts))

    def request(self, second: int, *added: Draft, compressed: bool = False) -> None:
        self.drafts += added
        rows = self.rows
        named = {len(rows) - 1: blobs.write(self.layout, added[-1].text)} if compressed else {}
        self.writer.sync(rows, dropped=(), cut=None, owned=len(rows), blobs=named, at=AT.format(second))

    def answer(self, second: int, *counts: int | None, trimmed: int = 0) -> None:
        usage = events.Usage("m", self.rows[0].thread, trimmed, *(counts or (10, 20, 30, 40)), None, None)
        self.writer.record(usage, at=AT.format(second))

    def read(self) -> list[Event]:
        self.writer.close()
        with source.opened(self.layout.database("s")) as connection:
            return account.read(connection, self.layout)


@pytest.fixture
def session(layout: Layout) -> Session:
    return Session(layout)


def written(layout: Layout, text: str, second: float) -> None:
    os.utime(layout.blob(blobs.blob_id(text)), (BEGAN + second, BEGAN + second))


def calls(session: Session, count: int = 1) -> list[Call]:
    return [Call("m", session.rows[0].thread, 0, Counts(10, 20, 30, 40), cached=True)] * count


def test_trims_and_calls_come_in_order_and_a_call_without_counts_is_none(session: Session) -> None:
    session.request(0, Draft("user", "text", None, "hello"))
    session.answer(1)
    session.writer.record(events.Trim(tokens_before=9, tokens_after=4, dropped=1), at=AT.format(2))
    session.answer(2, None, None, None, None)
    session.answer(3, 5, None, None, 6, trimmed=2)
    assert session.read() == [
        *calls(session),
        Trim(9, 4),
        Call("m", session.rows[0].thread, 2, Counts(5, 0, 0, 6), cached=False),
    ]


def test_a_result_compressed_when_it_was_first_sent_counts_from_then_on(session: Session) -> None:
    session.request(0, Draft("user", "text", None, "hello"))
    session.answer(1)
    session.request(
        2, Draft("assistant", "tool_use", "cat", "{}"), Draft("tool", "tool_result", "cat", LONG), compressed=True
    )
    written(session.layout, LONG, 2.4)
    session.answer(5)
    assert session.read() == [*calls(session), Shift(session.rows[0].thread, 1_000), *calls(session)]


def test_a_result_that_a_trim_compressed_is_part_of_that_trims_figures(session: Session) -> None:
    session.request(0, Draft("user", "text", None, "hello"), Draft("tool", "tool_result", "cat", LONG), compressed=True)
    written(session.layout, LONG, 30)
    session.answer(5)
    assert session.read() == calls(session)


def test_a_result_whose_text_is_gone_or_hardly_shorter_counts_nothing(session: Session) -> None:
    session.request(0, Draft("user", "text", None, "hello"), Draft("tool", "tool_result", "cat", LONG), compressed=True)
    session.request(1, Draft("tool", "tool_result", "cat", "y" * FORM), compressed=True)
    written(session.layout, "y" * FORM, 1)
    session.layout.blob(blobs.blob_id(LONG)).unlink()
    session.answer(5)
    assert session.read() == calls(session)


@pytest.mark.parametrize(("other", "alone"), [((), True), ((Draft("assistant", "tool_use", "cat", "{}"),), False)])
def test_a_look_up_counts_against_us(session: Session, other: tuple[Draft, ...], alone: bool) -> None:
    session.request(0, Draft("user", "text", None, "hello"))
    session.answer(1)
    asked = Draft("assistant", "tool_use", SEARCH, "q" * 50)
    session.request(2, *other, asked, Draft("tool", "tool_result", SEARCH, "a" * 200))
    session.answer(5)
    assert session.read() == [
        *calls(session),
        Shift(session.rows[0].thread, -100, asked=alone),
        *calls(session),
    ]


def test_what_happens_in_the_same_second_as_an_answer_counts_from_the_next(session: Session) -> None:
    session.request(0, Draft("user", "text", None, "hello"))
    session.answer(1)
    session.request(
        1, Draft("assistant", "tool_use", SEARCH, "q" * 50), Draft("tool", "tool_result", SEARCH, "a" * 200)
    )
    session.answer(1)
    session.answer(2)
    assert session.read() == [
        *calls(session, 2),
        Shift(session.rows[0].thread, -100, asked=True),
        *calls(session),
    ]
