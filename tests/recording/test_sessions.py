"""The sessions that are recorded."""

from pathlib import PurePosixPath

import pytest

from fixtures.provider import scenario, tokens
from fixtures.recording import folders, sessions
from tests.provider.bodies import body, user

EVERY = sessions.sessions()
PROJECT = PurePosixPath("/home/user/project")


@pytest.mark.parametrize("session", EVERY, ids=lambda session: session.name)
def test_every_prompt_that_is_no_command_names_a_script_of_its_session(session):
    scripts = session.scripts(PROJECT)
    texts = [prompt if isinstance(prompt, str) else prompt[0]["text"] for prompt in session.prompts]
    places = [scenario.locate(body(user(text))) for text in texts if not text.startswith("/")]
    assert places
    assert [place.name for place in places if place is None or place.name not in scripts] == []


def test_every_session_is_recorded():
    assert sorted(session.name for session in EVERY) == folders.sessions(folders.ROOT)


def test_only_the_first_token_count_is_kept():
    turns = next(session for session in EVERY if session.name == "turns")
    count, message = "/v1/messages/count_tokens?beta=true", "/v1/messages?beta=true"
    assert [turns.kept({}, path) for path in (message, count, count, message)] == [True, True, False, True]


def test_the_picture_is_a_png_of_its_size():
    import base64

    data = base64.b64encode(sessions.picture(750, 4)).decode()
    assert tokens.image({"type": "image", "source": {"data": data}}) == 4
