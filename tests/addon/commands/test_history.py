"""Hold a history to bodies that the wire formats read."""

import json
from pathlib import Path

import pytest
from openmem_addon.commands import history
from openmem_addon.commands.history import History, Lines, Request, Source, zstd


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
    assert history.lines(path) == Lines([{"a": 1}])


def test_broken_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    """But for the last one, which may be being written."""
    path = tmp_path / "f"
    path.write_bytes(b'{"a":1}\n{"b":\n\x00\x00\n\n\xff\n' + b"[" * 200_000 + b'\n{"c":3}\n{"d"')
    found = history.lines(path)
    assert found == Lines([{"a": 1}, {"c": 3}], (2, 3, 5, 6))
    with pytest.raises(ValueError, match="f: line 2 is not JSON"):
        found.complain(path)
    Lines([]).complain(path)


def test_half_of_a_surrogate_pair_breaks_no_line(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text('{"a":"\\ud83d"}\n')
    assert history.lines(path) == Lines([{"a": "\ud83d"}])


def test_a_compressed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "f.jsonl.zst"
    path.write_bytes(zstd.compress(b'{"a":1}\n') + zstd.compress(b'{"b":2}\n'))
    assert history.lines(path) == Lines([{"a": 1}, {"b": 2}])
    for content in (b"no", zstd.compress(b'{"a":1}\n')[:-3]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"f\.jsonl\.zst cannot be decompressed"):
            history.lines(path)


def test_what_was_left_behind_is_part_of_the_whole() -> None:
    given = (Request((A,), "m", left=(B,)), Request((A, C), "m"))
    made = History("a", "s", None, "t", "/v1/messages", "messages", b"", given)
    assert [json.loads(body)["messages"] for body in made.whole()] == [
        [json.loads(A), json.loads(B)],
        [json.loads(A), json.loads(C)],
    ]


def test_a_form_that_is_not_known_is_refused(tmp_path: Path) -> None:
    def read(path: Path) -> list[History]:
        raise KeyError("message")

    with pytest.raises(ValueError, match="a form that is not known"):
        Source("A", lambda place: place, ("*",), read).histories(tmp_path)
