from pathlib import Path

import pytest
from openmem_addon.commands import play

from fixtures.agent import SEARCH
from fixtures.provider.scenario import Asked, Call, Step


def asked(index: int, *texts: str) -> Asked:
    return Asked(
        body={"messages": [{"role": "user", "content": text} for text in texts]}, headers={}, name="x", index=index
    )


def test_the_key_stands_on_one_page_alone() -> None:
    holding = [number for number in range(play.PAGES) if "KESTREL-00FF" in play.page(number, "KESTREL-00FF")]
    assert len(holding) == 1


def test_no_page_is_the_same_as_another() -> None:
    pages = [play.page(number, "KESTREL-00FF") for number in range(play.PAGES)]
    assert len(set(pages)) == play.PAGES


def test_the_model_reads_page_by_page_and_stops() -> None:
    first = play._reading(asked(0))
    assert first.tools == (Call(name="run", input={"cmd": "cat page-0.txt"}),)
    assert play._reading(asked(play.PAGES)).tools == ()


def test_the_model_searches_in_the_session_that_the_pointer_names() -> None:
    step = play._asking(
        asked(0, "[openmem: continuing session its-own-name; 4 earlier messages are NOT in your context.")
    )
    (call,) = step.tools
    assert call.name == SEARCH
    assert call.input["session_id"] == "its-own-name"


@pytest.mark.parametrize(
    ("result", "answer"),
    [('{"excerpt": "the key KESTREL-00FF."}', "The key is KESTREL-00FF."), ("{}", "The search did not return it.")],
)
def test_the_model_knows_no_more_than_the_search_returned(result: str, answer: str) -> None:
    assert play._asking(asked(1, "KESTREL-FFFF in an earlier message", result)) == Step(text=answer)


def test_settings_of_the_user_do_not_change_the_demo(tmp_path: Path) -> None:
    found = play.environment(tmp_path, {"PATH": "/bin", "CONTEXT_MODE": "observe", "OPENMEM_STATE_DIR": "/mine"})
    assert found == {
        "PATH": "/bin",
        "OPENMEM_STATE_DIR": str(tmp_path),
        "OPENMEM_CONFIG": str(tmp_path / "config.toml"),
        "CONTEXT_TRIM_TOKENS": "6000",
    }
    assert (tmp_path / "config.toml").read_text() == ""
