"""Own what a setting's value may be, whether it comes as text or as a TOML value.

A parser returns the value or raises ValueError with `<value as given>: <what is allowed>`.
"""

import math
import re
from collections.abc import Callable
from urllib.parse import urlsplit

Parser = Callable[[object], object]

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
_HOST = re.compile(r"(\*\.)?([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)*[a-z0-9]([a-z0-9-]*[a-z0-9])?(:[0-9]{1,5})?")
_INTEGER = re.compile(r"[+-]?[0-9]+(_[0-9]+)*")


def flag(value: object) -> bool:
    word = str(value).lower() if isinstance(value, bool | int | str) else ""
    if word not in _TRUE + _FALSE:
        raise ValueError(f"{value!r}: must be 1 or 0 (true, false, yes, no, on, off)")
    return word in _TRUE


def text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r}: must be text")
    return value


def choice(*allowed: str) -> Parser:
    def parse(value: object) -> str:
        if not isinstance(value, str) or value not in allowed:
            raise ValueError(f"{value!r}: must be {' or '.join(allowed)}")
        return value

    return parse


def whole(least: int, most: int) -> Parser:
    """Return a parser of whole numbers from `least` to `most`."""

    def parse(value: object) -> int:
        number = None
        if isinstance(value, int) and not isinstance(value, bool):
            number = value
        elif isinstance(value, str) and _INTEGER.fullmatch(value) and len(value) < 32:
            number = int(value)
        if number is None or not least <= number <= most:
            raise ValueError(f"{value!r}: must be a whole number from {least} to {most}")
        return number

    return parse


def number(least: float, most: float) -> Parser:
    """Return a parser of numbers from `least` to `most`."""

    def parse(value: object) -> float:
        found = math.nan
        if isinstance(value, int | float | str) and not isinstance(value, bool):
            try:
                found = float(value)
            except (ValueError, OverflowError):
                found = math.nan
        if not least <= found <= most:  # false for NaN too
            raise ValueError(f"{value!r}: must be a number from {least:g} to {most:g}")
        return found

    return parse


def hosts(value: object) -> tuple[str, ...]:
    """Return hosts in lower case, each with or without a port, from a list or from text with commas or spaces."""
    names: list[object] = []
    if isinstance(value, str):
        names += value.replace(",", " ").split()
    elif isinstance(value, list):
        names += value
    else:
        names.append(value)
    return tuple(dict.fromkeys(map(_host, names)))


def _host(name: object) -> str:
    if not isinstance(name, str) or not _HOST.fullmatch(name.lower()):
        raise ValueError(
            f"{name!r}: must be a host such as llm.example.com, llm.example.com:8443 or *.example.com, without scheme"
        )
    return name.lower()


def url(value: object) -> str:
    """Return an http(s) URL without trailing slash. The message hides the value: it may hold a password."""
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
        fits = parts is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        fits = False
    if not isinstance(value, str) or not fits:
        raise ValueError("(not shown): must be a URL such as http://127.0.0.1:11434/v1")
    return value.rstrip("/")


TOKENS = whole(1, 20_000_000)
"""A trim threshold; a usage report above 20 million is ignored too."""
