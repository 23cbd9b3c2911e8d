"""Hold every change to the bytes it is about: what a person wrote beside them stays as it is."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openmem_addon.commands import jsontext

ENTRY = {"command": "/x", "args": ["a"]}
PATH = ("servers", "ours")

TABLE = {
    "an empty object": (
        "{}\n",
        '{\n  "servers": {\n    "ours": {\n      "command": "/x",\n      "args": [\n        "a"\n      ]\n'
        '    }\n  }\n}\n',
    ),
    "four spaces, no newline at the end": (
        '{\n    "a": 1\n}',
        '{\n    "a": 1,\n    "servers": {\n        "ours": {\n            "command": "/x",\n'
        '            "args": [\n                "a"\n            ]\n        }\n    }\n}',
    ),
    "one line": ('{"a": 1}', '{"a": 1, "servers": {"ours": {"command": "/x", "args": ["a"]}}}'),
    "another server": (
        '{\n\t"servers": {\n\t\t"theirs": {}\n\t},\n\t"z": 1.50\n}\n',
        '{\n\t"servers": {\n\t\t"theirs": {},\n\t\t"ours": {\n\t\t\t"command": "/x",\n\t\t\t"args": [\n\t\t\t\t"a"\n'
        '\t\t\t]\n\t\t}\n\t},\n\t"z": 1.50\n}\n',
    ),
    "comments and a trailing comma": (
        '{\n  // mine\n  "a": 1, /* one */\n}\n',
        '{\n  // mine\n  "a": 1, /* one */\n  "servers": {\n    "ours": {\n      "command": "/x",\n      "args": [\n'
        '        "a"\n      ]\n    }\n  },\n}\n',
    ),
    "windows lines": (
        '{\r\n  "a": 1\r\n}\r\n',
        '{\r\n  "a": 1,\r\n  "servers": {\r\n    "ours": {\r\n      "command": "/x",\r\n      "args": [\r\n'
        '        "a"\r\n      ]\r\n    }\r\n  }\r\n}\r\n',
    ),
    "a comment of two lines behind the last member": (
        '{\n  "a": 1 /* one,\n  two */\n}\n',
        '{\n  "a": 1,\n  "servers": {\n    "ours": {\n      "command": "/x",\n      "args": [\n        "a"\n'
        '      ]\n    }\n  } /* one,\n  two */\n}\n',
    ),
    "a comment before the first member": (
        '{\n  /* one */ "a": 1\n}\n',
        '{\n  /* one */ "a": 1,\n  "servers": {\n    "ours": {\n      "command": "/x",\n      "args": [\n        "a"\n'
        '      ]\n    }\n  }\n}\n',
    ),
    "a comment behind the last member": (
        '{\n  "a": 1 // one\n}\n',
        '{\n  "a": 1, // one\n  "servers": {\n    "ours": {\n      "command": "/x",\n      "args": [\n        "a"\n'
        '      ]\n    }\n  }\n}\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), TABLE.values(), ids=TABLE)
def test_a_member_is_added_in_the_manner_of_the_file(before: str, after: str) -> None:
    assert jsontext.put(before, PATH, ENTRY) == after
    assert jsontext.put(after, PATH, ENTRY) == after


def test_a_member_that_is_there_is_replaced_in_its_place() -> None:
    text = '{"servers": {"ours": 1 /* old */, "theirs": 2}}'
    assert jsontext.put(text, PATH, 3) == '{"servers": {"ours": 3 /* old */, "theirs": 2}}'


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('{\n  "a": 1,\n  "b": 2\n}', '{\n  "a": 1\n}'),
        ('{\n  "b": 2,\n  "a": 1\n}', '{\n  "a": 1\n}'),
        ('{\n  "b": 2\n}', "{}"),
        ('{"x": 0, "b": 2, "a": 1}', '{"x": 0, "a": 1}'),
        ('{\n  "a": 1, // one\n  "b": 2 // two\n}', '{\n  "a": 1 // one // two\n}'),
        ('{\n  "a": 1,\n  "b": 2,\n}', '{\n  "a": 1,\n}'),
        ('{"a": 1}', '{"a": 1}'),
        ('{"a": 1 /* x, y */, "b": 2}', '{"a": 1 /* x, y */}'),
        ('{"a": 1, // one\n"b": 2}', '{"a": 1 // one\n}'),
        ('{ // one\n"b": 2, "a": 1}', '{ // one\n "a": 1}'),
    ],
)
def test_a_member_leaves_with_its_comma(text: str, left: str) -> None:
    assert jsontext.without(text, ("b",)) == left


def test_items_are_added_and_taken() -> None:
    text = '{\n  "hooks": {\n    "Start": [\n      {"a": 1}\n    ]\n  }\n}\n'
    added = jsontext.append(text, ("hooks", "Start"), {"b": 2})
    assert json.loads(added)["hooks"]["Start"] == [{"a": 1}, {"b": 2}]
    assert jsontext.without(added, ("hooks", "Start"), 1) == text
    assert json.loads(jsontext.append(text, ("hooks", "End"), 1))["hooks"] == {"Start": [{"a": 1}], "End": [1]}


@pytest.mark.parametrize(
    "text", ["", "{", '{"a" 1}', '{"a": 1} x', "{'a': 1}", '{"a": 01}', '{"a": 1, "a": 2}', "[1 2]"]
)
def test_a_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not JSON|twice"):
        jsontext.put(text, PATH, ENTRY)


@pytest.mark.parametrize("text", ['{"servers": []}', '{"servers": "x"}', "[]"])
def test_what_is_in_the_way_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not an object"):
        jsontext.put(text, PATH, ENTRY)


def test_an_array_is_not_put_in_place_of_another_value() -> None:
    with pytest.raises(ValueError, match=r"hooks\.Start is not an array"):
        jsontext.append('{"hooks": {"Start": {}}}', ("hooks", "Start"), 1)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=12,
)


@given(
    document=st.dictionaries(st.text(), VALUES, max_size=4),
    indent=st.sampled_from([None, 2, 4, "\t"]),
    value=VALUES,
)
def test_any_document_holds_what_it_held_and_the_new_member(document: dict[str, Any], indent: Any, value: Any) -> None:
    document.pop("ours", None)
    text = json.dumps(document, indent=indent, ensure_ascii=False)
    added = jsontext.put(text, ("ours", "x"), value)
    assert json.loads(added) == {**document, "ours": {"x": value}}
    taken = jsontext.without(added, ("ours",))
    assert json.loads(taken) == document
    if document:
        assert taken == text
