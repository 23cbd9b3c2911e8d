"""Own how sessions are shown to a person: a row each, or two lines where the terminal is narrow."""

from openmem_addon.commands import pricing
from openmem_addon.commands.report import Report
from openmem_addon.commands.savings import Savings
from openmem_addon.commands.terminal import Line, Table
from openmem_addon.switch import Switch

SWITCHED: dict[Switch, str] = {"on": "", "off": "switched off", "raw": "raw"}
"""What the line of a session says of its switch."""


def table(reports: list[Report]) -> Table:
    """Return a row for each session, and for a narrow terminal two lines."""
    heading = ("session", "agent", "folder", "messages", "in prompt", "trims", "tokens", "cache", "saved", "", "")
    rows = tuple(_cells(each) for each in reports)
    return Table(heading, rows, frozenset(range(3, 9)), tuple(line for each in reports for line in _narrow(each)))


def footer(total: Savings) -> str:
    """Return the line that says what the figures mean; empty where there is no figure."""
    if not total.tokens:
        return ""
    unpriced = f"; no price for {', '.join(total.unpriced)}" if total.unpriced else ""
    return (
        f"saved: {amount(total)} in these sessions, net of cache rewrites and look-ups, "
        f"without the provider's own caching; prices of {pricing.AS_OF}{unpriced}"
    )


def amount(saved: Savings) -> str:
    """Return tokens and money, for a cell; without a price no money."""
    if not saved.tokens:
        return "-"
    money = f"{'-' if saved.dollars < 0 else ''}${abs(saved.dollars):,.2f}"
    return f"{short(saved.tokens)} tok" + (f", {money}" if saved.dollars else "")


def short(tokens: int) -> str:
    """Return a count in thousands or millions."""
    if tokens < 0:
        return f"-{short(-tokens)}"
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.1f}M"
    return f"{tokens / 1000:.0f}k" if tokens >= 1000 else str(tokens)


def _cells(each: Report) -> tuple[str, ...]:
    return (
        each.session_id[:36],
        each.agent or "-",
        _tail(each.cwd),
        f"{each.messages:,}",
        f"{each.in_context:,}",
        str(each.trims),
        _trimmed(each) or "-",
        f"{each.cache_hit_rate:.0%}" if each.cache_hit_rate is not None else "-",
        amount(each.saved),
        _troubles(each),
        f"{each.vectors:,} vectors" if each.vectors else "",
    )


def _narrow(each: Report) -> tuple[Line, ...]:
    place = ", ".join(filter(None, (each.agent, _tail(each.cwd) if each.cwd else "")))
    figures = (
        f"{each.messages:,} messages, {each.in_context:,} in the prompt",
        f"{_count(each.trims, 'trim')}: {_trimmed(each)} tokens" if each.trims else "",
        f"{each.cache_hit_rate:.0%} from the cache" if each.cache_hit_rate is not None else "",
        f"saved {amount(each.saved)}" if each.saved.tokens else "",
        _troubles(each),
        f"{each.vectors:,} vectors" if each.vectors else "",
    )
    return ((each.session_id, "bold"), f"  {place}".rstrip()), (f"  {'; '.join(filter(None, figures))}",)


def _trimmed(each: Report) -> str:
    return f"{short(each.tokens_before)} → {short(each.tokens_after)}" if each.trims else ""


def _troubles(each: Report) -> str:
    counts = (_count(count, noun) for count, noun in ((each.fail_opens, "fail-open"), (each.heals, "heal")) if count)
    return ", ".join(filter(None, (SWITCHED[each.switch], *counts)))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _tail(cwd: str | None) -> str:
    """Return the end of a path, which tells folders apart."""
    return "-" if not cwd else cwd if len(cwd) <= 28 else f"…{cwd[-27:]}"
