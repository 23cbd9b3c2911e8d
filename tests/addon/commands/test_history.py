"""Hold a history to bodies that the wire formats read."""

import json
from pathlib import Path

import pytest
from openmem_addon.commands import history
from openmem_addon.commands.history import History, Request


def made(*requests: tuple[bytes, ...], replies: tuple[bytes, ...] = (), head: bytes = b"") -> History:
    given = tuple(Request(items, "m") for items in requests)
    return History("a", "s", None, "t", "/v1/messages", "messages", head, given, replies)


A, B, C = (json.dumps({"role": "user", "content": each}).encode() for each in "abc")


def test_a_body_holds_what_was_sent() -> None:
    one = made((A, B), head=b'"system":"s"')
    body = one.body(one.requests[0], more=(C,))
    assert body == b'{"model":"m","system":"s","messages":[' + b",".join((A, B, C)) + b"]}"
    assert len(one.route.adapter.parse(body).items) == 3


def test_the_whole_is_the_last_of_each_run_that_grew() -> None:
    grown = made((A,), (A, B), (A, B), (C,), replies=(B,))
    assert [json.loads(body)["messages"] for body in grown.whole()] == [
        [json.loads(A), json.loads(B)],
        [json.loads(C), json.loads(B)],
    ]


@pytest.mark.parametrize(
    ("stamp", "said"),
    [
        ("2026-10-29T17:00:00.123Z", "2026-10-29T17:00:00Z"),
        ("2026-10-29T17:00:00Z", "2026-10-29T17:00:00Z"),
        (None, "1970-01-01T00:00:00Z"),
        (12, "1970-01-01T00:00:00Z"),
    ],
)
def test_a_moment_is_written_as_the_store_does(stamp: object, said: str) -> None:
    assert history.moment(stamp) == said


def test_lines_that_are_no_objects_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text('1\n{"a":1}\n[2]\n')
    assert list(history.lines(path)) == [{"a": 1}]
