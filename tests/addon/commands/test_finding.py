"""Hold a finding to its line, plain and on a terminal."""

import pytest
from openmem_addon.commands import terminal
from openmem_addon.commands.finding import Finding

FULL = Finding("problem", "disk", "full", "make room")


def test_it_shows_its_line_and_what_mends_it() -> None:
    assert str(FULL).splitlines() == [
        "problem disk        full",
        "                    → make room",
    ]
    assert str(Finding("ok", "disk", "empty")) == "ok      disk        empty"


@pytest.mark.parametrize(("mark", "sign"), [("ok", "✓"), ("note", "•")])
def test_a_terminal_shows_a_sign(mark: str, sign: str) -> None:
    found = Finding(mark, "disk", "half full")  # type: ignore[arg-type]
    assert terminal.plain(found.lines()) == [f"{sign} disk        half full"]


def test_a_terminal_shows_what_mends_it_too() -> None:
    assert terminal.plain(FULL.lines()) == ["✗ disk        full", "              → make room"]
