"""Hold terminals to colour and to their width, and everything else to plain lines."""

import io
import re
import subprocess
import sys

import pytest
from openmem_addon.commands import terminal
from openmem_addon.commands.terminal import Page, Progress, Table

LONG = "word " * 40
TABLE = Table(
    heading=("session", "n"),
    rows=(("a" * 30, "1"), ("b", "22")),
    right=frozenset({1}),
    narrow=(("a" * 30,), ("  1 message",), ("b",), ("  22 messages",)),
)
PAGE: Page = [("proxy ", ("up", "green")), (LONG,), TABLE]
PLAIN = ["proxy up", LONG, "session" + " " * 26 + "n", "a" * 30 + "   1", "b" + " " * 30 + "  22".removeprefix(" ")]

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _surroundings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("LINES", "24")
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM"):
        monkeypatch.delenv(name, raising=False)


def shown(page: Page) -> str:
    stream = Terminal()
    terminal.put(page, stream)
    return stream.getvalue()


def test_a_pipe_gets_plain_lines_as_wide_as_they_are() -> None:
    stream = io.StringIO()
    terminal.put(PAGE, stream)
    assert stream.getvalue().splitlines() == PLAIN == terminal.plain(PAGE)


@pytest.mark.parametrize("kind", ["dumb", "unknown", ""])
def test_a_terminal_that_cannot_draw_gets_plain_lines(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", kind)
    assert shown(PAGE).splitlines() == PLAIN


def test_a_terminal_gets_colour_and_no_line_is_broken_by_us() -> None:
    found = shown(PAGE)
    assert "\x1b[32mup" in found
    assert [line.rstrip() for line in ESCAPE.sub("", found).splitlines()] == [line.rstrip() for line in PLAIN]


def test_no_color_leaves_the_colour_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[3" not in shown(PAGE)


def test_a_table_that_does_not_fit_is_shown_in_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "32")
    assert ESCAPE.sub("", shown([TABLE])).split("\n")[:4] == ["a" * 30, "  1 message", "b", "  22 messages"]


def test_a_line_of_a_narrow_table_is_broken_at_words_and_keeps_its_indentation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    table = Table(("session", "n"), (("a" * 30, "1"),), narrow=(("  12 messages, 3 in the prompt",),))
    lines = [line.rstrip() for line in ESCAPE.sub("", shown([table])).splitlines()]
    assert lines == ["  12 messages, 3 in", "  the prompt"]


def test_what_looks_like_markup_is_text() -> None:
    assert "[bold]x[/bold] :smile:" in ESCAPE.sub("", shown([("[bold]x[/bold] :smile:",)]))


def test_nothing_that_is_shown_can_steer_the_terminal() -> None:
    page: Page = [("a\x1b[2Jb", ("c\x9b1md\n", "bold")), Table(("head",), (("e\x07f\rg",),))]
    assert terminal.plain(page) == ["a\ufffd[2Jbc\ufffd1md\ufffd", "head", "e\ufffdf\ufffdg"]
    assert [line.rstrip() for line in ESCAPE.sub("", shown(page)).splitlines()] == terminal.plain(page)
    assert terminal.plain([("a\tb",)]) == ["a\tb"]


def test_a_screen_of_its_own_is_left_as_it_was_found() -> None:
    stream = Terminal()
    with terminal.screen(stream) as screen:
        screen.show([("one",)])
        screen.show([TABLE])
    found = stream.getvalue()
    assert found.startswith("\x1b[?1049h")
    assert found.rstrip().endswith(("\x1b[?1049l\x1b[?25h", "\x1b[?25h\x1b[?1049l"))


def test_without_a_terminal_pages_follow_each_other() -> None:
    stream = io.StringIO()
    with terminal.screen(stream) as screen:
        screen.show([("one",)])
        screen.show([("two",)])
    assert stream.getvalue() == "one\ntwo\n"


def test_a_bar_is_drawn_on_a_terminal_and_lines_stand_above_it() -> None:
    stream = Terminal()
    with Progress("messages", 4, stream=stream) as progress:
        progress.advance(3)
        progress.say("session s: left alone")
        progress.advance()
    found = ESCAPE.sub("", stream.getvalue())
    assert progress.done == 4
    assert "session s: left alone\n" in found.replace("\r", "")
    assert "4/4 messages" in found


def test_without_a_terminal_only_the_lines_are_written() -> None:
    stream = io.StringIO()
    with Progress("messages", 4, stream=stream) as progress:
        progress.advance(3)
        progress.say("session s: left alone")
    assert (progress.done, stream.getvalue()) == (3, "session s: left alone\n")


@pytest.mark.parametrize("module", ["hooks", "cli", "status", "doctor", "terminal"])
def test_what_draws_is_not_imported_before_it_draws(module: str) -> None:
    asked = f"import sys, openmem_addon.commands.{module}; print('rich' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"
