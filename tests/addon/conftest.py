"""Share a way to open and close whole session layers."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.addon.house import House


@pytest.fixture
def open_house(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """Return a function that opens a session layer on one root; all are closed at the end."""
    houses: list[House] = []

    def opened(**settings: Any) -> House:
        houses.append(House(tmp_path / "context", **settings))
        return houses[-1]

    yield opened
    for house in houses:
        house.close()


@pytest.fixture
def house(open_house: Callable[..., House]) -> House:
    return open_house()
