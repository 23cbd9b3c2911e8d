"""Own changes to a TOML file that a person keeps: one table or key in, or out, and every other byte stays.

Works on lines and asks the standard parser after each change whether it did just that; where a file is
written so that it did not (an inline table, a header inside a text), the change is refused, never guessed.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence

Path = Sequence[str]
"""Keys of a table from the outermost inwards; each a bare key."""

Value = str | bool | int | list[str] | dict[str, str]

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]*?)\s*\]\]?\s*(?:#.*)?")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


def put(text: str, path: Path, values: Mapping[str, Value], *, owned: Collection[str] = ()) -> str:
    """Return the text with these values in a table, which is made at the end where it is missing.

    Of a table that is there, the keys in `owned` that have no value leave too; every other key of it, and the tables
    below those, stay. Raises ValueError for a text that is no TOML and for a table that is written in another way
    than under a header.
    """
    found = _found(text, path)
    known: dict[str, object] = found if isinstance(found, dict) else {}
    wanted = {**{key: each for key, each in known.items() if key not in owned}, **values}
    if found == wanted:
        return text
    end, lines = _end(text), _lines(text)
    written = {key: f"{key} = {_written(value)}{end}" for key, value in values.items()}
    header = next((number for number, line in enumerate(lines) if _names(line) == tuple(path)), None)
    if header is None:
        ended = [] if not lines or lines[-1].endswith("\n") else [end]
        changed = [*lines, *ended, *([end] if lines else []), f"[{'.'.join(path)}]{end}", *written.values()]
    else:
        stale = [key for key in {**known, **values} if known.get(key) != wanted.get(key)]
        ours = {number for key in stale for number in _entry(lines, header, path, key)}
        lines[header] += "" if lines[header].endswith("\n") else end
        changed = [line for number, line in enumerate(lines) if number not in ours]
        at = header + 1 - sum(number < header for number in ours)
        changed[at:at] = [written[key] for key in stale if key in written]
    return _checked(text, "".join(changed), path, wanted)


def without(text: str, path: Path) -> str:
    """Return the text without a table and those below it. Raises ValueError as `put`; it need not be there."""
    if _found(text, path) is None:
        return text
    lines = _lines(text)
    return _checked(text, "".join(_cut(lines, _spans(lines, path))), path, None)


def put_key(text: str, table: str, key: str, value: Value) -> str:
    """Return the text with one key of a table set, which is made where it is missing. Raises ValueError as `put`."""
    known = _found(text, (table,))
    if known is None:
        return put(text, (table,), {key: value})
    if not isinstance(known, dict):
        raise ValueError(f"{table} is not a table")
    if known.get(key) == value:
        return text
    lines = _lines(text)
    written = f"{key} = {_written(value)}{_end(text)}"
    at = _key(lines, table, key)
    if at is not None:
        lines[at] = written
    else:
        header = next((n for n, line in enumerate(lines) if _names(line) == (table,)), None)
        if header is None:
            raise ValueError(f"[{table}] is not written as a table of its own: set {key} in it by hand")
        lines[header] += "" if lines[header].endswith("\n") else _end(text)
        lines.insert(header + 1, written)
    return _checked(text, "".join(lines), (table, key), value)


def without_key(text: str, table: str, key: str) -> str:
    """Return the text without one key of a table, and without a table it leaves empty. Raises ValueError as `put`."""
    known = _found(text, (table,))
    if not isinstance(known, dict) or key not in known:
        return text
    if len(known) == 1:
        return without(text, (table,))
    lines = _lines(text)
    at = _key(lines, table, key)
    if at is None:
        raise ValueError(f"{key} of [{table}] is not on a line of its own: take it out by hand")
    return _checked(text, "".join(lines[:at] + lines[at + 1 :]), (table, key), None)


def _lines(text: str) -> list[str]:
    """Return the lines with their ends. TOML knows one; `splitlines` knows others, which may stand in a text."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _found(text: str, path: Path) -> object:
    value: object = tomllib.loads(text)
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _checked(text: str, changed: str, path: Path, value: object) -> str:
    """Return the changed text if it says what the text said but for the value under a path; None takes it out."""
    wanted = tomllib.loads(text)
    parents = [wanted]
    for key in path[:-1]:
        inner = parents[-1].setdefault(key, {})
        if not isinstance(inner, dict):
            raise ValueError(f"{key} is not a table")
        parents.append(inner)
    if value is None:
        parents[-1].pop(path[-1], None)
    else:
        parents[-1][path[-1]] = value
    try:
        found = tomllib.loads(changed)
    except tomllib.TOMLDecodeError:
        found = None
    if found is None or _without_empty(found) != _without_empty(wanted):
        raise ValueError(f"{'.'.join(path)} is written in a way that cannot be changed safely: change it by hand")
    return changed


def _without_empty(value: object) -> object:
    """Return a value without empty tables: one that only held ours may go with it."""
    if not isinstance(value, dict):
        return value
    inner = {key: _without_empty(each) for key, each in value.items()}
    return {key: each for key, each in inner.items() if each != {}}


def _spans(lines: Sequence[str], path: Path) -> list[tuple[int, int]]:
    """Return the runs of lines of a table and those below it, without the comments before what follows."""
    headers = [(number, names) for number, line in enumerate(lines) if (names := _names(line)) is not None]
    spans: list[tuple[int, int]] = []
    for place, (start, names) in enumerate(headers):
        if names[: len(path)] != tuple(path):
            continue
        stop = headers[place + 1][0] if place + 1 < len(headers) else len(lines)
        following = headers[place + 1][1] if place + 1 < len(headers) else ()
        if following[: len(path)] != tuple(path):
            while stop > start + 1 and (not lines[stop - 1].strip() or lines[stop - 1].lstrip().startswith("#")):
                stop -= 1
        spans.append((start, stop))
    return spans


def _cut(lines: Sequence[str], spans: Sequence[tuple[int, int]]) -> list[str]:
    """Return the lines without these runs, and without the empty line before a run that has one on both sides."""
    left = list(lines)
    for start, stop in reversed(spans):
        before = start > 0 and not left[start - 1].strip()
        after = stop == len(left) or not left[stop].strip()
        del left[start - 1 if before and after else start : stop]
    return left


def _entry(lines: Sequence[str], header: int, path: Path, key: str) -> Iterator[int]:
    """Yield the lines of a key of the table under a header, and of the tables below it that the key names."""
    for start, stop in _spans(lines, (*path, key)):
        yield from range(start, stop)
    for start in range(header + 1, len(lines)):
        if _names(lines[start]) is not None:
            return
        if not re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", lines[start]):
            continue
        for stop in range(start + 1, len(lines) + 1):
            if _is_whole("".join(lines[start:stop])):
                yield from range(start, stop)
                return


def _is_whole(text: str) -> bool:
    """Return whether a value that begins here ends here: it may stand on more than one line."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


def _names(line: str) -> tuple[str, ...] | None:
    """Return the keys of a header's line, None for any other line."""
    header = _HEADER.fullmatch(line.rstrip("\r\n"))
    if header is None or not line.lstrip().startswith("["):
        return None
    keys = [key.strip().strip("\"'") for key in header[1].split(".")]
    return tuple(keys)


def _key(lines: Sequence[str], table: str, key: str) -> int | None:
    inside = False
    for number, line in enumerate(lines):
        names = _names(line)
        inside = names == (table,) if names is not None else inside
        if inside and re.match(rf"\s*{re.escape(key)}\s*=", line):
            return number
    return None


def _written(value: Value) -> str:
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{_keyed(key)} = {_written(each)}' for key, each in value.items())} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_written, value))}]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _keyed(key: str) -> str:
    return key if _BARE.fullmatch(key) else json.dumps(key)
