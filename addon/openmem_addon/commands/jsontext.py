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
    node = parse(text)
    for depth, key in enumerate(path):
        if not isinstance(node.value, dict):
            raise ValueError(f"{'.'.join(path[:depth]) or 'the whole'} is not an object")
        child = _member(node, key)
        if child is None:
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return _inserted(text, node, depth, key, value)
        node = child.node
    if node.value == value:
        return text
    return text[: node.start] + _written(text, value, len(path)) + text[node.stop :]


def append(text: str, path: Path, item: object) -> str:
    """Return the text with one more item in the array under a path, which is made where it is missing.

    Raises ValueError as `put`, and where something else than an array is there.
    """
    node = find(text, path)
    if node is None:
        return put(text, path, [item])
    if not isinstance(node.value, list):
        raise ValueError(f"{'.'.join(path)} is not an array")
    return _inserted(text, node, len(path), None, item)


def without(text: str, path: Path, item: int | None = None) -> str:
    """Return the text without a member, or without one item of the array under a path; it need not be there."""
    parent = find(text, path if item is not None else path[:-1])
    if parent is None:
        return text
    wanted = [
        each for at, each in enumerate(parent.children) if (at == item if item is not None else each.key == path[-1])
    ]
    if not wanted:
        return text
    child = wanted[0]
    before = text[: child.start].rstrip(_BLANK)
    after = _skip(text, child.node.stop)
    if text[after] == ",":
        return before + text[child.node.stop : after] + text[after + 1 :]
    place = parent.children.index(child)
    if place:  # the last one: the comma before it goes too, and a comment behind the comma stays
        comma = text.index(",", parent.children[place - 1].node.stop)
        before = (text[:comma] + text[comma + 1 : child.start]).rstrip(_BLANK)
        return before + text[child.node.stop :]
    closing = text[child.node.stop :].lstrip(_BLANK)
    return before + (closing if before.endswith(("{", "[")) else text[child.node.stop :])


def _inserted(text: str, node: Node, depth: int, key: str | None, value: object) -> str:
    """Return the text with one more child at the end of an object or array, in the manner of those there."""
    label = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    written = label + _written(text, value, depth + 1)
    if not node.children:
        inner = text[node.start + 1 : node.stop - 1].rstrip(_BLANK)
        margin, edge = "\n" + _unit(text) * (depth + 1), "\n" + _unit(text) * depth
        return text[: node.start + 1] + inner + margin + written + edge + text[node.stop - 1 :]
    last = node.children[-1]
    lead = text[node.start + 1 : node.children[0].start]
    margin = lead[lead.rindex("\n") :] if "\n" in lead else " "
    if margin == " ":
        written = label + json.dumps(value, ensure_ascii=False)
    comma = _skip(text, last.node.stop)
    if text[comma] == ",":  # a trailing one: it stays one
        return text[: comma + 1] + margin + written + "," + text[comma + 1 :]
    return (
        text[: last.node.stop]
        + ","
        + text[last.node.stop : _line(text, last.node.stop, comma)]
        + margin
        + (written + text[_line(text, last.node.stop, comma) :])
    )


def _line(text: str, start: int, stop: int) -> int:
    """Return the end of what stands on the line of `start` before `stop`: a comment there is about that line."""
    end = text.find("\n", start, stop)
    said = text[start : end if end != -1 else stop]
    return start + len(said.rstrip(_BLANK))


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
