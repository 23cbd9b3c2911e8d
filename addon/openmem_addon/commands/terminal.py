"""Own what a person's terminal shows beyond plain lines: colour, tables that fit, progress.

A pipe, a file and a terminal that cannot draw (`TERM=dumb`) get plain lines instead, as wide as they are and without
an escape code. `NO_COLOR` keeps the shape and leaves out the colour. rich is imported where it draws and nowhere
else: what a script reads must not wait for it.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Protocol, Self, TextIO

import msgspec

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.progress import Progress as Drawn
    from rich.progress import TaskID

Part = str | tuple[str, str]
"""Text, or text and its style: a colour, `bold`, `dim`, or several of them."""

Line = tuple[Part, ...]

GAP = "  "
"""Between two columns."""

_UNSEEN = dict.fromkeys((*range(9), *range(10, 32), *range(127, 160)), "\ufffd")
"""What is shown comes from agents, models and file names: but for a tab, none of it may steer a terminal."""


class Table(msgspec.Struct, frozen=True):
    """Rows under a heading."""

    heading: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    right: frozenset[int] = frozenset()
    """Columns of figures, which stand to the right."""
    narrow: tuple[Line, ...] = ()
    """The same in lines, for a terminal that is not as wide as the rows; empty to let the cells be cut."""

    def lines(self) -> list[str]:
        """Return it as plain text, aligned."""
        whole = [tuple(map(_seen, row)) for row in (self.heading, *self.rows)]
        widths = [max(len(row[column]) for row in whole) for column in range(len(self.heading))]
        return [GAP.join(self._cells(row, widths)).rstrip() for row in whole]

    def _cells(self, row: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
        for column, (cell, width) in enumerate(zip(row, widths, strict=True)):
            yield cell.rjust(width) if column in self.right else cell.ljust(width)


Page = Sequence[Line | Table]


class Screen(Protocol):
    """Where a page is shown that is to be replaced by the next."""

    def show(self, page: Page) -> None: ...


def console(stream: TextIO) -> "Console | None":
    """Return what draws on a stream, None where nobody looks or nothing can be drawn."""
    if not stream.isatty() or os.environ.get("TERM", "dumb") in ("", "dumb", "unknown"):
        return None
    from rich.console import Console

    return Console(file=stream, force_terminal=True, highlight=False, markup=False, emoji=False)


def plain(page: Page) -> list[str]:
    """Return a page as lines without style."""
    lines: list[str] = []
    for each in page:
        lines += each.lines() if isinstance(each, Table) else ["".join(map(_text, each))]
    return lines


def put(page: Page, stream: TextIO | None = None) -> None:
    """Write a page: in colour where a person reads it."""
    out = stream or sys.stdout
    drawing = console(out)
    if drawing is None:
        print("\n".join(plain(page)), file=out, flush=True)
        return
    for each in _drawn(page, drawing.width):
        drawing.print(each, soft_wrap=getattr(each, "no_wrap", None) is True)  # of a text, printing forgets it


def screen(stream: TextIO | None = None) -> "AbstractContextManager[Screen]":
    """Return a screen of its own, which leaves the terminal as it was; plain pages one after another elsewhere."""
    out = stream or sys.stdout
    drawing = console(out)
    return nullcontext(_Roll(out)) if drawing is None else _Alternate(drawing)


class _Roll:
    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, page: Page) -> None:
        put(page, self._stream)


class _Alternate(AbstractContextManager["_Alternate"]):
    def __init__(self, drawing: "Console") -> None:
        self._drawing = drawing
        self._held = drawing.screen()

    def __enter__(self) -> Self:
        self._held.__enter__()
        return self

    def __exit__(self, *reason: object) -> None:
        self._held.__exit__(None, None, None)

    def show(self, page: Page) -> None:
        self._held.update(*_drawn(page, self._drawing.width, wrapped=True))


class Progress:
    """How far a long command is: a bar on a terminal, nothing elsewhere."""

    def __init__(self, noun: str, total: int, *, stream: TextIO | None = None) -> None:
        self._noun = noun
        self._total = total
        self._stream = stream or sys.stderr
        self._held = ExitStack()
        self._bar: tuple[Drawn, TaskID] | None = None
        self.done = 0

    def __enter__(self) -> Self:
        drawing = console(self._stream)
        if drawing is not None:
            from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
            from rich.progress import Progress as Drawn

            columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
            drawn = self._held.enter_context(Drawn(*columns, console=drawing))
            self._bar = drawn, drawn.add_task(self._noun, total=self._total)
        return self

    def __exit__(self, *reason: object) -> None:
        self._held.close()

    def advance(self, count: int = 1) -> None:
        self.done += count
        if self._bar is not None:
            drawn, task = self._bar
            drawn.update(task, completed=self.done)

    def say(self, line: str) -> None:
        """Write a line above the bar."""
        if self._bar is not None:
            self._bar[0].console.print(line, soft_wrap=True)
        else:
            print(line, file=self._stream, flush=True)


def _seen(text: str) -> str:
    return text.translate(_UNSEEN)


def _text(part: Part) -> str:
    return _seen(part if isinstance(part, str) else part[0])


def _parts(line: Line) -> list[Part]:
    return [_text(part) if isinstance(part, str) else (_text(part), part[1]) for part in line]


def _drawn(page: Page, width: int, *, wrapped: bool = False) -> "list[RenderableType]":
    """Return what rich draws. Lines are left to the terminal to break, which copies them whole, or `wrapped` here."""
    from rich.text import Text

    drawn: list[RenderableType] = []
    for each in page:
        if not isinstance(each, Table):
            drawn.append(_wrapped(each) if wrapped else Text.assemble(*_parts(each), no_wrap=True, overflow="ignore"))
        elif each.narrow and max(map(len, each.lines())) > width:
            drawn += map(_wrapped, each.narrow)
        else:
            drawn.append(_table(each))
    return drawn


def _wrapped(line: Line) -> "RenderableType":
    """Return a line that is broken at words where it is too long, its indentation kept."""
    from rich.padding import Padding
    from rich.text import Text

    text = Text.assemble(*_parts(line))
    indentation = len(text.plain) - len(text.plain.lstrip())
    return Padding(text[indentation:], (0, 0, 0, indentation), expand=False)


def _table(given: Table) -> "RenderableType":
    from rich.table import Table as Drawn
    from rich.text import Text

    drawn = Drawn(box=None, padding=(0, len(GAP), 0, 0), pad_edge=False, header_style="bold")
    for column, name in enumerate(given.heading):
        drawn.add_column(name, justify="right" if column in given.right else "left", no_wrap=True, overflow="ellipsis")
    for row in given.rows:
        drawn.add_row(*(Text(_seen(cell)) for cell in row))
    return drawn
