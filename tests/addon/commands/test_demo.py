import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from openmem_addon.commands import checkout, demo
from openmem_addon.commands.demo import Facts, Trim

GOOD = Facts(
    requests=3,
    refusals=(),
    sent=5,
    rows=7,
    lost=0,
    trims=(Trim(2, 6100, 1700, 4),),
    repeated=1,
    broken=(),
    cached=0.9,
    threshold=6000,
    largest=5900,
    pointer="[openmem: continuing session demo; 4 earlier messages are NOT in your context.]",
    question="Which key?",
    visible=False,
    hit={"seq": 3, "excerpt": "the key K-1", "in_context": False},
    search='query="key"',
    answer="The key is K-1.",
    key="K-1",
)

FALSE = {
    "the provider refused no request": {"refusals": ("400",)},
    "every text the agent sent is in the store": {"lost": 1},
    "the session outgrew the threshold and was trimmed": {"trims": (), "repeated": 2},
    "each trim made the prompt smaller": {"trims": (Trim(2, 6100, 6100, 4),)},
    "no prompt was larger than the threshold": {"largest": 6001},
    "each prompt began with the one before it, but at a trim": {"broken": (3,), "repeated": 0},
    "the model was told what is missing": {"pointer": None},
    "the answer had left the prompt": {"visible": True},
    "the search found it among what had left": {"hit": None},
    "the model answered with what the search returned": {"answer": "I do not know."},
}


def test_every_claim_holds_of_a_session_in_which_all_went_well() -> None:
    assert all(demo.claims(GOOD).values())
    assert demo.claims(GOOD).keys() == FALSE.keys()


@pytest.mark.parametrize(("claim", "change"), FALSE.items())
def test_each_claim_can_fail(claim: str, change: dict[str, object]) -> None:
    failed = [name for name, holds in demo.claims(msgspec.structs.replace(GOOD, **change)).items() if not holds]
    assert failed == [claim]


def test_a_hit_that_is_still_in_context_proves_nothing() -> None:
    still = msgspec.structs.replace(GOOD, hit={**(GOOD.hit or {}), "in_context": True})
    assert not demo.claims(still)["the search found it among what had left"]


def test_the_story_tells_the_numbers_of_the_facts() -> None:
    told = "\n".join(demo.story(GOOD))
    for number in ("3 requests", "5 messages", "7 rows", "6,100 tokens before, 1,700 after, 4 messages dropped", "90%"):
        assert number in told


@pytest.mark.parametrize(("words", "code"), [(["--fast"], 2), ([], 1)])
def test_what_it_cannot_do_is_said(
    words: list[str], code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(checkout, "ROOT", tmp_path)
    assert demo.main("demo", words) == code
    assert capsys.readouterr().err.startswith("openmem-context: ")


def test_the_whole_line_works_without_key_or_network(tmp_path: Path) -> None:
    """Started as a user does, from another folder, with settings of the user's that must not change its course."""
    environ = {**os.environ, "CONTEXT_PROXY_ENABLED": "0", "HTTPS_PROXY": "http://127.0.0.1:1", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-P", "-m", "openmem_addon.commands.cli", "demo"]
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Checked against the provider's record and the database" in done.stdout
    assert "[openmem: continuing session demo-session;" in done.stdout
    assert list(tmp_path.iterdir()) == []
