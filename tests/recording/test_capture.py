"""Running the client: what can be said without one."""

import os
from pathlib import Path

import pytest

from fixtures.recording import capture
from fixtures.recording.capture import Place
from fixtures.recording.sessions import FILES, sessions


def test_the_client_gets_nothing_of_the_callers_environment_but_the_path(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-real-key")
    monkeypatch.setenv("SSL_CERT_FILE", "/somewhere.pem")
    given = capture.client_environment(Place(Path("/scratch")), 4321)
    assert given["HTTPS_PROXY"] == "http://127.0.0.1:4321"
    assert given["PATH"] == os.environ["PATH"]
    assert "a-real-key" not in given.values()
    assert "SSL_CERT_FILE" not in given


def test_machine_paths_are_replaced_in_both_of_the_clients_spellings():
    paths = Place(Path("/scratch/a_b")).paths()
    assert paths["/scratch/a_b/project"] == "/home/user/project"
    assert paths["-scratch-a-b-project"] == "-home-user-project"


def test_a_client_that_fails_is_an_error_and_leaves_no_process(tmp_path):
    client = tmp_path / "claude"
    client.write_text("#!/bin/sh\necho no luck >&2\nexit 7\n")
    client.chmod(0o700)
    session = next(session for session in sessions() if session.name == "tools")
    with pytest.raises(RuntimeError, match=r"tools: the client ended with 7: no luck"):
        capture.capture(session, client, Place(tmp_path))
    assert sorted(path.name for path in (tmp_path / "project").iterdir()) == sorted(FILES)


def test_a_client_that_asks_for_nothing_leaves_no_exchange(tmp_path):
    client = tmp_path / "claude"
    client.write_text("#!/bin/sh\nexit 0\n")
    client.chmod(0o700)
    session = next(session for session in sessions() if session.name == "subagent")
    assert capture.capture(session, client, Place(tmp_path)) == []
