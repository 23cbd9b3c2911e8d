"""Hold the usage tap to what the provider reports, in whatever pieces and encoding it comes."""

import gzip
import json
import tracemalloc
import zlib
from collections.abc import Callable
from pathlib import Path

import brotli
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openmem_addon.core import anthropic, usage
from openmem_addon.core.decoding import zstd
from openmem_addon.core.usage import Tap, Usage

STREAMS = Path(__file__).parents[3] / "fixtures" / "sse"

FULL = Usage(31, 2048, 96, 27, final=True)

REPORTED: dict[str, Usage] = {
    "cumulative": FULL,
    "delta_null": FULL,
    "delta_output_only": FULL,
    "crlf": FULL,
    "cr": FULL,
    "comments": FULL,
    "split_data": FULL,
    "no_end": Usage(31, 2048, 96, 27),
    "cut": Usage(31, 2048, 96, 1),
    "error_first": Usage(),
    "error_mid": Usage(31, 2048, 96, 1),
    "no_usage": Usage(final=True),
    "iterations": Usage(4215, 0, 0, 60, last_prompt=2040, final=True),
}
"""What each stream of the fixtures reports: cumulative counts, the last one of each that was given."""

ENCODERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    "identity": bytes,
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstd.compress,
}


def tap(encoding: str = "", content_type: str = "text/event-stream; charset=utf-8") -> Tap:
    return Tap(anthropic.usage, content_type=content_type, content_encoding=encoding)


def fed(pieces: list[bytes], encoding: str = "", content_type: str = "text/event-stream") -> Usage:
    reader = tap(encoding, content_type)
    for piece in pieces:
        reader.feed(piece)
    return reader.result()


def stream(name: str) -> bytes:
    return (STREAMS / f"{name}.sse").read_bytes()


def test_every_stream_of_the_fixtures_has_its_counts_here() -> None:
    assert {path.stem for path in STREAMS.glob("*.sse")} == set(REPORTED)


@pytest.mark.parametrize("name", REPORTED)
def test_a_stream_reports_the_last_count_of_each_kind(name: str) -> None:
    assert fed([stream(name)]) == REPORTED[name]


@pytest.mark.parametrize("name", REPORTED)
def test_a_stream_reports_the_same_byte_by_byte(name: str) -> None:
    body = stream(name)
    assert fed([body[at : at + 1] for at in range(len(body))]) == REPORTED[name]


@pytest.mark.parametrize("name", ["cumulative", "crlf", "cr"])
def test_a_stream_reports_the_same_wherever_it_is_parted(name: str) -> None:
    body = stream(name)
    for at in range(len(body)):
        assert fed([body[:at], body[at:]]) == REPORTED[name], at


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("size", [1, 7, 4096])
def test_usage_is_read_through_each_encoding(encoding: str, size: int) -> None:
    body = ENCODERS[encoding](stream("cumulative"))
    assert fed([body[at : at + size] for at in range(0, len(body), size)], encoding.upper()) == FULL


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_an_encoder_may_end_a_member_at_each_flush(encoding: str) -> None:
    events = stream("cumulative").split(b"\n\n")
    body = b"".join(ENCODERS[encoding](event + b"\n\n") for event in events)
    assert fed([body], encoding) == FULL
    assert fed([body[at : at + 5] for at in range(0, len(body), 5)], encoding) == FULL


@pytest.mark.parametrize("encoding", [name for name, encode in ENCODERS.items() if encode is not bytes])
def test_a_compressed_stream_that_is_cut_keeps_what_it_reported(encoding: str) -> None:
    body = ENCODERS[encoding](stream("cumulative"))
    assert fed([body[: len(body) // 2]], encoding).output_tokens in (None, 1, 27)


@pytest.mark.parametrize(
    "encoding", [*(name for name in ENCODERS if name not in ("", "identity")), "snappy", "gzip, br"]
)
def test_an_encoding_that_lies_or_is_unknown_reports_nothing_and_raises_nothing(encoding: str) -> None:
    assert fed([stream("cumulative")], encoding) == Usage()


def test_a_count_that_was_not_reported_is_none_and_never_zero() -> None:
    counts = {"input_tokens": 5, "output_tokens": 0}
    whole = json.dumps({"type": "message", "usage": counts}).encode()
    assert fed([whole], content_type="application/json") == Usage(5, None, None, 0, final=True)


@pytest.mark.parametrize("encoding", ENCODERS)
def test_a_whole_answer_is_read_in_pieces(encoding: str) -> None:
    answer = {"type": "message", "content": [{"type": "text", "text": "家"}], "usage": {"input_tokens": 5}}
    body = ENCODERS[encoding](json.dumps(answer, ensure_ascii=False).encode())
    assert fed([body[:9], body[9:]], encoding, "application/json") == Usage(5, final=True)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>usage</html>",
        b'{"type":"error","error":{"message":"usage"}}',
        b'{"usage":[]}',
        b'{"usage":{"input_tokens":"5"}}',
        b'{"usage":{"input_tokens":5}',
        b'{"usage":null,"message":null}',
        b'{"type":"message","usage":"\xff"}',
        b'{"a":' * 5000 + b'"usage"' + b"}" * 5000,
    ],
)
@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
def test_what_is_no_answer_reports_nothing(body: bytes, content_type: str) -> None:
    sent = body if content_type == "application/json" else b"data: " + body + b"\n\n"
    assert fed([sent], content_type=content_type).prompt() is None


@pytest.mark.parametrize(
    ("found", "prompt"),
    [
        (Usage(31, 2048, 96, 27), 2175),
        (Usage(31), 31),
        (Usage(None, 2048, 96), None),
        (Usage(4215, 0, 0, 60, last_prompt=2040), 2040),
        (Usage(), None),
    ],
)
def test_a_prompt_is_input_reads_and_writes_of_the_last_sampling(found: Usage, prompt: int | None) -> None:
    assert found.prompt() == prompt


def test_iterations_of_another_shape_do_not_hide_the_counts_beside_them() -> None:
    for odd in ("3", '{"a":1}', '[{"input_tokens":"x"}]', '[{"type":"compaction","input_tokens":9}]', "null"):
        answer = b'{"type":"message","usage":{"input_tokens":5,"iterations":' + odd.encode() + b"}}"
        assert fed([answer], content_type="application/json") == Usage(5, final=True)


def test_an_answer_beyond_the_bound_is_given_up_and_not_kept() -> None:
    reader = tap()
    reader.feed(b"data: ")
    tracemalloc.start()
    try:
        for _ in range(24):
            reader.feed(b"x" * (1 << 20))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < usage.MOST_BUFFERED
    reader.feed(b'\n\ndata: {"type":"message_delta","usage":{"output_tokens":3}}\n\n')
    assert reader.result() == Usage()


def test_a_result_asked_twice_counts_once() -> None:
    reader = tap()
    reader.feed(stream("cumulative"))
    assert reader.result() == reader.result() == FULL


FAILED: dict[str, tuple[bytes, bytes]] = {
    "messages": (
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}',
        b'{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long"}}',
    ),
    "chat": (b'{"error":{"code":"context_length_exceeded"}}', b'{"error":{"code":"context_length_exceeded"}}'),
    "responses": (
        b'{"type":"error","code":"context_length_exceeded","message":"m"}',
        b'{"type":"error","code":"context_length_exceeded","message":"m"}',
    ),
    "a failed response": (
        b'{"type":"response.failed","response":{"id":"r","error":{"code":"context_length_exceeded"},"usage":null}}',
        b'{"error":{"code":"context_length_exceeded"}}',
    ),
    "a text about one": (b'{"type":"content_block_delta","delta":{"type":"text_delta","text":"\\"error\\":1"}}', b""),
    "none yet": (b'{"type":"response.created","response":{"id":"r","error":null}}', b""),
    "no event": (b'["error"]', b""),
}
"""Events that say that their answer failed, and what of them says how."""


@pytest.mark.parametrize("content_type", ["application/json", "text/event-stream"])
@pytest.mark.parametrize("name", FAILED)
def test_an_answer_that_fails_behind_its_status_says_how(name: str, content_type: str) -> None:
    event, said = FAILED[name]
    reader = tap(content_type=content_type)
    reader.feed(event if content_type == "application/json" else b"data: " + event + b"\n\n")
    reader.result()
    assert reader.refusal == said


def test_an_error_of_another_shape_does_not_hide_the_counts_beside_it() -> None:
    answer = b'{"type":"message","response":"error","usage":{"input_tokens":5}}'
    assert fed([answer], content_type="application/json") == Usage(5, final=True)


def test_the_first_error_of_an_answer_is_the_one_that_is_looked_at() -> None:
    reader = tap()
    for number in (1, 2):
        reader.feed(b'data: {"type":"error","message":"%d"}\n\n' % number)
    reader.result()
    assert reader.refusal == b'{"type":"error","message":"1"}'


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(sorted(REPORTED)), st.data())
def test_damaged_streams_never_raise(name: str, data: st.DataObject) -> None:
    body = bytearray(stream(name))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.integers(0, 255))
    encoding = data.draw(st.sampled_from(sorted(ENCODERS)))
    fed([bytes(body)], encoding)
    encoded = bytearray(ENCODERS[encoding](bytes(body)))
    encoded[len(encoded) // 2] ^= 0x55
    fed([bytes(encoded)], encoding)
