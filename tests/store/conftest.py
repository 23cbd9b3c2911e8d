"""Share an empty store and a short way to say a conversation."""

from collections.abc import Callable
from pathlib import Path

import pytest
from openmem_store.layout import Layout
from openmem_store.rows import Draft, Row, chain


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    """Return a prepared store of its own."""
    made = Layout(tmp_path / "context")
    made.prepare()
    return made


@pytest.fixture
def say() -> Callable[..., tuple[Row, ...]]:
    """Return a function from texts to rows: user and assistant in turn."""

    def rows(*texts: str) -> tuple[Row, ...]:
        return chain(
            Draft("assistant" if place % 2 else "user", "text", None, text) for place, text in enumerate(texts)
        )

    return rows
