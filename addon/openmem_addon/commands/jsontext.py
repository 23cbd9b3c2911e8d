"""Own changes to a JSON file that a person keeps: one member or item in, or out, and every other byte stays.

Reads comments and trailing commas too, as the configuration of some agents has them.
"""

import json
import re
from collections.abc import Iterator, Sequence

import msgspec

Path = Sequence[str]
"""Keys from the outermost object inwards."""

_SPACE = re.compile(r"(?:\s+|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_SCALAR = re.compile(r'"(?:[^"\\\n]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null')
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
"""Finds comments where nothing else but blanks and commas stands."""
_REST = re.compile(r"(?:[ \t]*/\*(?:(?!\*/)[^\r\n])*\*/)*(?:[ \t]*//[^\r\n]*)?")
_BLANK = " \t\r\n"


class Node(msgspec.Struct, frozen=True):
    """A value and where it stands."""

    start: int
    stop: int
    value: object
    children: "tuple[Child, ...]" = ()
    """Of an object or an array."""


class Child(msgspec.Struct, frozen=True):
    """A member of an object or an item of an array."""

    key: str | None
    start: int
    """Of its key, or of an item's value."""
    node: Node


def parse(text: str) -> Node:
    """Return the value of a whole text. Raises ValueError for one that is no JSON, with the line."""
    try:
        node = _value(text, _skip(text, 0))
    except IndexError:
        raise _wrong(text, len(text)) from None
    except RecursionError:
        raise ValueError("its objects and arrays are too deep in each other") from None
    if _skip(text, node.stop) != len(text):
        raise _wrong(text, node.stop)
    return node


def find(text: str, path: Path) -> Node | None:
    """Return the value under a path, None where there is none. Raises ValueError as `parse`."""
    node = parse(text)
    for key in path:
        child = _member(node, key)
        if child is None:
            return None
        node = child.node
    return node


def put(text: str, path: Path, value: object) -> str:
    """Return the text with a value under a path, whose objects are made where they are missing.

    Raises ValueError for a text that is no JSON, and where something else than an object is in the way.
    """
    node = whole = parse(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise ValueError(f"{'.'.join(path[:depth]) or 'the whole'} is not an object")
        child = _member(node, key)
        if child is None:
            inner = value
            for outer in reversed(path[depth + 1 :]):
                inner = {outer: inner}
            return _checked(_inserted(text, node, depth, key, inner), _with(whole.value, path, value))
        node = child.node
    if node.value == value:
        return text
    changed = text[: node.start] + _ended(text, _written(text, value, len(path))) + text[node.stop :]
    return _checked(changed, _with(whole.value, path, value))


def append(text: str, path: Path, item: object) -> str:
    """Return the text with one more item in the array under a path, which is made where it is missing.

    Raises ValueError as `put`, and where something else than an array is there.
    """
    node = find(text, path)
    if node is None:
        return put(text, path, [item])
    if not isinstance(node.value, list):
        raise ValueError(f"{'.'.join(path)} is not an array")
    return _checked(_inserted(text, node, len(path), None, item), _with(parse(text).value, path, [*node.value, item]))


def without(text: str, path: Path, item: int | None = None) -> str:
    """Return the text without a member, or without one item of the array under a path; it need not be there."""
    inside = path if item is not None else path[:-1]
    parent = find(text, inside)
    wanted = [
        at
        for at, each in enumerate(parent.children if parent is not None else ())
        if (at == item if item is not None else each.key == path[-1])
    ]
    if parent is None or not wanted:
        return text
    [place] = wanted
    child = parent.children[place]
    former = parent.children[place - 1].node.stop if place else parent.start + 1
    start, stop = _stretch(text, former, child.start), child.node.stop
    comma = _skip(text, stop)
    if text[comma] == ",":
        changed = _joined(text[:start], text[stop:comma] + text[comma + 1 :], text[former:start])
    elif place:  # the last one: the comma before it goes too, and a comment behind the comma stays
        comma = _skip(text, former)
        changed = _joined((text[:comma] + text[comma + 1 : start]).rstrip(_BLANK), text[stop:], text[former:start])
    else:
        alone = start == parent.start + 1
        changed = _joined(text[:start], text[stop:].lstrip(_BLANK) if alone else text[stop:], text[former:start])
    left = [each.node.value for at, each in enumerate(parent.children) if at != place]
    value = left if item is not None else {key: each for key, each in _object(parent).items() if key != path[-1]}
    return _checked(changed, _with(parse(text).value, inside, value))


def _checked(changed: str, wanted: object) -> str:
    """Return the changed text if it says what it is to say. Raises ValueError: better no change than a wrong one."""
    try:
        found = parse(changed).value
    except ValueError:
        found = None
    if found != wanted:
        raise ValueError("it is written in a way that cannot be changed safely: change it by hand")
    return changed


def _with(value: object, path: Path, new: object) -> object:
    if not path:
        return new
    known: dict[str, object] = value if isinstance(value, dict) else {}
    return {**known, path[0]: _with(known.get(path[0]), path[1:], new)}


def _object(node: Node) -> dict[str, object]:
    return node.value if isinstance(node.value, dict) else {}


def _stretch(text: str, start: int, stop: int) -> int:
    """Return where what is said between two places ends: a comma or a comment, but for the blanks behind it."""
    comments = list(_COMMENT.finditer(text, start, stop))
    said = comments[-1].end() if comments else start
    return max(said, start + len(text[start:stop].rstrip(_BLANK)))


def _joined(before: str, after: str, said: str) -> str:
    """Return both as one text; `said` is what `before` ends with, and where it is a comment up to a line's end,
    the line ends there."""
    comments = _COMMENT.findall(said)
    open_line = bool(comments) and comments[-1].startswith("//") and said.endswith(comments[-1])
    ended = re.match(r"[ \t]*(?:\r?\n|//)", after) is not None
    return before + ("\n" if open_line and not ended else "") + after


def _inserted(text: str, node: Node, depth: int, key: str | None, value: object) -> str:
    """Return the text with one more child at the end of an object or array, in the manner of those there."""
    label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    written = label + _written(text, value, depth + 1)
    below = "\n" + _unit(text) * (depth + 1)
    if not node.children:
        start = _stretch(text, node.start + 1, node.stop - 1)
        edge = "\n" + _unit(text) * depth
        return text[:start] + _ended(text, below + written + edge) + text[node.stop - 1 :]
    last = node.children[-1]
    lead = re.search(r"\n[ \t]*\Z", text[node.start + 1 : node.children[0].start])
    comma = _skip(text, last.node.stop)
    trailing = text[comma] == ","  # it stays one
    line = _line(text, comma + 1 if trailing else last.node.stop)
    if lead is None and "\n" not in text[node.start : node.stop]:
        added = f" {label}{json.dumps(value, ensure_ascii=False)}"
    else:
        added = _ended(text, (lead[0] if lead else below) + written)
    if trailing:
        return text[:line] + added + "," + text[line:]
    return text[: last.node.stop] + "," + text[last.node.stop : line] + added + text[line:]


def _ended(text: str, added: str) -> str:
    """Return what is added with the line ends of the text; no value of JSON holds one."""
    return added.replace("\n", "\r\n") if "\r\n" in text else added


def _line(text: str, start: int) -> int:
    """Return the end of the comments that stand on the line of a place, behind it: they are about that line."""
    found = _REST.match(text, start)
    return found.end() if found else start


def _written(text: str, value: object, depth: int) -> str:
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).split("\n")
    return ("\n" + _unit(text) * depth).join(lines)


def _unit(text: str) -> str:
    """Return what one level is indented by in a text: two spaces where nothing shows it."""
    first = re.search(r"\{[^\S\n]*\n([ \t]+)\S", text)
    return first[1] if first else "  "


def _member(node: Node, key: str) -> Child | None:
    return next((child for child in node.children if child.key == key), None)


def _skip(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _value(text: str, start: int) -> Node:
    if text[start] in "{[":
        children = tuple(_children(text, start))
        stop = _skip(text, children[-1].node.stop if children else start + 1)
        if text[stop] == ",":
            stop = _skip(text, stop + 1)
        stop += 1
        if text[start] == "[":
            return Node(start, stop, [child.node.value for child in children], children)
        keys = [child.key for child in children]
        if len(set(keys)) != len(keys):
            raise ValueError("a key is there twice")
        return Node(start, stop, {child.key: child.node.value for child in children}, children)
    match = _SCALAR.match(text, start)
    if match is None:
        raise _wrong(text, start)
    try:
        return Node(start, match.end(), json.loads(match[0]))
    except ValueError:
        raise _wrong(text, start) from None


def _children(text: str, opening: int) -> Iterator[Child]:
    closing = "}" if text[opening] == "{" else "]"
    position = _skip(text, opening + 1)
    while text[position] != closing:
        start, key = position, None
        if closing == "}":
            named = _value(text, position)
            position = _skip(text, named.stop)
            if not isinstance(named.value, str) or text[position] != ":":
                raise _wrong(text, position)
            key = named.value
            position = _skip(text, position + 1)
        node = _value(text, position)
        yield Child(key, start, node)
        position = _skip(text, node.stop)
        if text[position] == ",":
            position = _skip(text, position + 1)
        elif text[position] != closing:
            raise _wrong(text, position)


def _wrong(text: str, position: int) -> ValueError:
    return ValueError(f"line {text.count(chr(10), 0, position) + 1} is not JSON")
