"""Own one line of doctor's report, and what there is to look at."""

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
from openmem_store.settings import Settings

from openmem_addon.commands.certificate import Authority
from openmem_addon.commands.terminal import Line

Mark = Literal["ok", "note", "problem"]

SIGNS: dict[Mark, tuple[str, str]] = {"ok": ("✓", "green"), "note": ("•", "yellow"), "problem": ("✗", "bold red")}
"""By mark: what a terminal shows for it, and its style."""


class Finding(msgspec.Struct, frozen=True):
    """One line of the report."""

    mark: Mark
    what: str
    said: str
    fix: str | None = None
    """What to type or do; None where nothing is wrong."""

    def __str__(self) -> str:
        line = f"{self.mark:<8}{self.what:<12}{self.said}"
        return f"{line}\n{'':<20}→ {self.fix}" if self.fix else line

    def lines(self) -> list[Line]:
        """Return it for a terminal."""
        sign, style = SIGNS[self.mark]
        line: Line = ((sign, style), f" {self.what:<12}{self.said}")
        return [line, (f"{'':<14}→ ", (self.fix, "bold"))] if self.fix else [line]


class Scene(msgspec.Struct, frozen=True):
    """What is looked at."""

    settings: Settings
    environ: Mapping[str, str]
    home: Path
    port: int
    authority: Authority
    now: datetime.datetime
    ignored: tuple[str, ...] = ()
    """What was not understood in the settings file."""
