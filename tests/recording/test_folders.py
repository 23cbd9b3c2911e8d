"""Recordings on disk."""

import pytest

from fixtures.recording import folders
from fixtures.recording.folders import Recorded
from tests.provider.bodies import body, system, text, user

LONG = "word " * 600
STREAM = [("content-type", "text/event-stream; charset=utf-8")]


def exchange(name="work/01", **more):
    """Return an exchange; its texts are long enough for parts."""
    given = {
        "name": name,
        "method": "POST",
        "path": "/v1/messages?beta=true",
        "headers": [("Accept", "a"), ("x-twice", "1"), ("x-twice", "2")],
        "body": {"z": 1, **body(user("é"), system(LONG), system=[text(LONG)], tools=[{"name": LONG}])},
        "status": 200,
        "answer_headers": STREAM,
        "answer": b"event: ping\n\n\xff",
    }
    return Recorded(**{**given, **more})


def test_what_is_written_is_read(tmp_path):
    folders.write(tmp_path, exchange())
    read = folders.read(tmp_path, "work/01")
    assert read == exchange()
    assert list(read.body) == list(exchange().body)
    assert read.raw.startswith(b'{"z":1,"model":"claude-opus-5-5"')
    assert "é".encode() in read.raw


def test_what_is_long_and_shared_is_one_part(tmp_path):
    for name in ("work/01", "work/02"):
        folders.write(tmp_path, exchange(name))
    parts = sorted(path.name.split("-")[0] for path in (tmp_path / "parts").iterdir())
    assert parts == ["message", "system", "tools"]
    assert (tmp_path / "work/02/request.json").stat().st_size < 1_000


def test_an_answer_that_is_no_stream_is_json(tmp_path):
    plain = exchange(answer_headers=[("content-type", "application/json")], answer=b"{}")
    folders.write(tmp_path, plain)
    assert (tmp_path / "work/01/response.json").read_bytes() == b"{}"
    assert folders.read(tmp_path, "work/01") == plain


def test_an_incomplete_folder_is_an_error(tmp_path):
    folders.write(tmp_path, exchange())
    (tmp_path / "work/01/response.sse").unlink()
    with pytest.raises(OSError, match="response"):
        folders.read(tmp_path, "work/01")


def test_sessions_and_their_exchanges_come_in_order(tmp_path):
    for name in ("work/02", "play/01", "work/01"):
        folders.write(tmp_path, exchange(name))
    assert folders.sessions(tmp_path) == ["play", "work"]
    assert folders.names(tmp_path, "work") == ["work/01", "work/02"]
