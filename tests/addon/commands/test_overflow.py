"""Hold the list to sessions that only fit because a part of them is left out."""

from pathlib import Path

import pytest
from openmem_addon.commands import overflow, pricing
from openmem_addon.commands.overflow import Overflow
from openmem_store import registration
from openmem_store.events import Usage
from openmem_store.layout import Layout
from openmem_store.registration import Registration
from openmem_store.rows import Draft, chain
from openmem_store.writer import SessionWriter


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    made = Layout(tmp_path)
    made.prepare()
    return made


def stored(layout: Layout, sid: str, *, left: int, model: str | None = None, prompt: int = 50_000) -> None:
    """Store a session whose first message of `left` characters left its context."""
    writer = SessionWriter(layout.database(sid), version="v")
    rows = chain([Draft("user", "text", None, "x" * left), Draft("user", "text", None, "now")])
    trimmed = left > 0
    writer.sync(rows, dropped=(0,) if trimmed else (), cut=1 if trimmed else None, owned=0, blobs={}, at="t")
    writer.record(Usage(model, rows[0].thread, int(trimmed), 0, prompt - 10, 10, 5, None, None), at="t")
    writer.close()


def test_a_session_larger_than_its_model_is_listed(layout: Layout) -> None:
    stored(layout, "large", left=400_000)
    stored(layout, "fits", left=100_000)
    stored(layout, "never-trimmed", left=0, prompt=900_000)
    registration.write(layout, Registration("large", cwd="/project"))
    found = overflow.overflowing(layout, chars_per_token=2.5)
    assert found == [Overflow("large", None, 210_000, pricing.USUAL_WINDOW, "/project")]
    assert str(found[0]) == "large in /project: about 210,000 tokens, its model reads 200,000"


def test_a_model_with_a_larger_window_takes_it(layout: Layout) -> None:
    stored(layout, "s", left=400_000, model="claude-opus-5-5")
    assert overflow.overflowing(layout, chars_per_token=2.5) == []


def test_a_file_that_cannot_be_read_is_passed_over(layout: Layout) -> None:
    layout.database("broken").write_text("no database" * 1000)
    assert overflow.overflowing(layout, chars_per_token=2.5) == []
