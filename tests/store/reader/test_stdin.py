"""What a host writes."""

import io
import json

import pytest
from openmem_store.reader import stdin


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (rb'"plain"', rb'"plain"'),
        (rb'"\ud83d\ude00"', rb'"\ud83d\ude00"'),
        (rb'"\uD83D\uDE00"', rb'"\uD83D\uDE00"'),
        (rb'"\ud83d"', rb'"\ufffd"'),
        (rb'"\ude00"', rb'"\ufffd"'),
        (rb'"\ud83d\ud83d\ude00"', rb'"\ufffd\ud83d\ude00"'),
        (rb'"\ude00\ud83d"', rb'"\ufffd\ufffd"'),
        (rb'"\ud83dx\ude00"', rb'"\ufffdx\ufffd"'),
        (rb'"\\ud83d"', rb'"\\ud83d"'),
        (rb'"\\\ud83d"', rb'"\\\ufffd"'),
        (rb'"\\\\ud83d\n"', rb'"\\\\ud83d\n"'),
        (rb'"\u00e9\ud7ff\ue000"', rb'"\u00e9\ud7ff\ue000"'),
        (rb'"\ud8', rb'"\ud8'),
        (b"\\", b"\\"),
    ],
)
def test_half_a_pair_becomes_the_replacement_character_and_nothing_else_changes(line: bytes, expected: bytes) -> None:
    assert stdin.repaired(line) == expected


def test_lines_come_one_by_one_and_end_with_the_stream() -> None:
    written = [json.dumps(text).encode() + b"\n" for text in ("a", "\ud800", "é" * 20_000, "\ud83d\ude00")]
    read = stdin.opened(io.BytesIO(b"".join(written) + b"the rest \xff"))
    assert json.loads(read.readline()) == "a"
    assert json.loads(read.readline()) == "\ufffd"
    assert json.loads(read.readline()) == "é" * 20_000
    assert json.loads(read.readline()) == "\U0001f600"
    assert read.readline() == "the rest \ufffd"
    assert read.readline() == ""


def test_a_line_is_given_on_before_the_next_is_written() -> None:
    class Host(io.BytesIO):
        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            assert line, "asked for more than was read"
            return line

    assert stdin.opened(Host(b"one\n")).readline() == "one\n"
