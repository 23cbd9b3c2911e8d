"""Hold splicing to its one promise: a value nobody replaces leaves as the client wrote it."""

import json
import math
import re
import tracemalloc
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openmem_addon.core import source
from openmem_addon.core.source import NotSplicable

NUMBERS = ["1E5", "-0", "0.10", "1e-7", "-1.50E+02", "123456789012345678901234567890", "0.1000000000000000055511151231"]

BROKEN: dict[str, bytes] = {
    "nothing": b"",
    "blanks": b"  ",
    "a byte order mark": b'\xef\xbb\xbf{"a":1}',
    "UTF-16": '{"a":1}'.encode("utf-16"),
    "a string": b'"a"',
    "a number": b"1",
    "null": b"null",
    "NaN": b'{"a":NaN}',
    "Infinity": b'{"a":-Infinity}',
    "a repeated key": b'{"a":1,"a":2}',
    "a repeated key with one value": b'{"a":1,"a":1}',
    "a repeated key with a longer first value": b'{"a":12,"a":1}',
    "a repeated key between others": b'{"b":0,"a":1,"c":2,"a":1}',
    "a key repeated by an escape": b'{"a":1,"\\u0061":2}',
    "a key repeated by an escape, one value": b'{"a":1,"\\u0061":1}',
    "a comma too many": b'{"a":1,}',
    "single quotes": b"{'a':1}",
    "a comment": b'{"a":1 /* one */}',
    "a control character": b'{"a\x01":1}',
    "a bad escape": b'{"\\x":1}',
    "a cut text": b'{"a":"b',
    "text behind it": b'{"a":1} {"b":2}',
    "a key that is not UTF-8": b'{"\xff":1}',
}


def scalars() -> st.SearchStrategy[str]:
    """Draw the source of a JSON scalar."""
    plain = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
    texts = st.text(max_size=8).flatmap(lambda t: st.sampled_from([json.dumps(t), json.dumps(t, ensure_ascii=False)]))
    return st.one_of(
        plain.map(json.dumps), texts, st.sampled_from(NUMBERS), st.sampled_from([r'"\/"', r'"\u0041"', r'"\\\""'])
    ).filter(lambda text: not re.search("[\ud800-\udfff]", text))


def values() -> st.SearchStrategy[str]:
    """Draw the source of any JSON value, blanks in odd places."""
    blank = st.sampled_from(["", "", " ", "\n\t", "\r\n "])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        lists = st.lists(st.tuples(blank, inner, blank).map("".join), max_size=3).map(",".join)
        arrays = st.tuples(blank, lists, blank).map(lambda three: f"[{three[0]}{three[1]}{three[2]}]")
        keys = st.lists(st.sampled_from(["a", "b", "ключ", 'q"', "\\", "{", "]", ""]), max_size=4, unique=True)
        objects = keys.flatmap(
            lambda names: st.tuples(*[st.tuples(blank, blank, inner, blank) for _ in names]).map(
                lambda fields: (
                    "{"
                    + ",".join(
                        f"{a}{json.dumps(k)}{b}:{b}{v}{c}" for k, (a, b, v, c) in zip(names, fields, strict=True)
                    )
                    + "}"
                )
            )
        )
        return st.one_of(arrays, objects)

    return st.recursive(scalars(), grown, max_leaves=12)


@given(values(), st.sampled_from(["", " \n"]))
def test_members_and_elements_cut_out_exactly_the_values(value: str, blank: str) -> None:
    text = f"{blank}{value}{blank}".encode()
    match json.loads(value):
        case dict():
            spans = source.members(text)
            assert list(spans) == list(json.loads(value))
            found = {key: json.loads(text[start:stop]) for key, (start, stop) in spans.items()}
        case list():
            found = [json.loads(text[start:stop]) for start, stop in source.elements(text)]
        case _:
            with pytest.raises(NotSplicable):
                source.members(text)
            with pytest.raises(NotSplicable):
                source.elements(text)
            return
    assert found == json.loads(value)


@given(values(), st.data())
def test_a_replaced_value_leaves_every_other_byte(value: str, data: st.DataObject) -> None:
    text = value.encode()
    if not value.startswith("{"):
        return
    spans = source.members(text)
    chosen = data.draw(st.sets(st.sampled_from(sorted(spans)))) if spans else set()
    changed = source.replaced(text, {spans[key]: b"[7, 8]" for key in chosen})
    again = source.members(changed)
    assert list(again) == list(spans)
    for key, (start, stop) in again.items():
        before = text[slice(*spans[key])]
        assert changed[start:stop] == (b"[7, 8]" if key in chosen else before)
    if not chosen:
        assert changed == text


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_what_is_no_object_of_unlike_keys_is_refused(text: bytes) -> None:
    with pytest.raises(NotSplicable):
        source.members(source.readable(text))


@pytest.mark.parametrize("text", [b"", b"{}", b'"a"', b"[1,]", b"[NaN]", b"[1] 2", b"[", b"\xef\xbb\xbf[]"])
def test_what_is_no_array_is_refused(text: bytes) -> None:
    with pytest.raises(NotSplicable):
        source.elements(text)


@pytest.mark.parametrize("depth", [600, 50_000])
def test_deep_nesting_is_taken_apart_or_refused_and_never_ends_the_process(depth: int) -> None:
    text = b'{"a":' + b"[" * depth + b"]" * depth + b',"b":1}'
    try:
        spans = source.members(text)
    except NotSplicable:
        return
    assert text[slice(*spans["b"])] == b"1"


def test_an_array_with_a_string_of_megabytes_needs_no_memory_beyond_its_size() -> None:
    text = b'["' + b"ab\\n" * (1 << 19) + b'",1]'
    tracemalloc.start()
    try:
        spans = source.elements(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [text[a:b][:3] for a, b in spans] == [b'"ab', b"1"]
    assert peak < 4 * len(text)


PARTS = [
    b"\\",
    b"\\\\",
    b"\\ud83d",
    b"\\uDE00",
    b"\\ude00",
    b"x",
    b"\\n",
    b"u",
    b"\\u1234",
    b"\\uD83D",
    b'\\"',
    b"d83d",
]


def _expected(text: bytes) -> bytes:
    """Return lone surrogates replaced, one escape after the other."""
    every = rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
    return re.sub(every, lambda m: b"\\ufffd" if m[1] else m[0], text, flags=re.DOTALL)


@settings(max_examples=500)
@given(st.lists(st.sampled_from(PARTS), max_size=9).map(b"".join))
def test_only_lone_surrogates_are_replaced_and_offsets_stay(text: bytes) -> None:
    readable = source.readable(text + b"z")
    assert readable == _expected(text + b"z")
    assert len(readable) == len(text) + 1


def test_half_a_pair_decodes_and_the_whole_pair_stays() -> None:
    text = rb'{"a":"x\ud83d","b":"\ud83d\ude00","c":"\\ud83d","d":"\ude00\ud83d"}'
    decoded: dict[str, str] = msgspec.json.decode(source.readable(text))
    assert decoded == {"a": "x\ufffd", "b": "\U0001f600", "c": "\\ud83d", "d": "\ufffd\ufffd"}


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (b"{}", b'{"k":1}'),
        (b"{ \n}", b'{ \n"k":1}'),
        (b'{"a":2}', b'{"a":2,"k":1}'),
        (b'{"a":2 } \n', b'{"a":2 ,"k":1} \n'),
        (b'{"a":"{"}', b'{"a":"{","k":1}'),
        (b'{"a":{}}', b'{"a":{},"k":1}'),
    ],
)
def test_a_member_is_added_at_the_end(text: bytes, made: bytes) -> None:
    assert source.with_member(text, "k", b"1") == made


def test_an_array_is_written_from_sources() -> None:
    assert source.array([]) == b"[]"
    assert source.array([b"1E5", b'{"a": 1}']) == b'[1E5,{"a": 1}]'


@pytest.mark.parametrize("number", NUMBERS)
def test_compact_keeps_the_text_of_a_number(number: str) -> None:
    assert source.compact(f'{{ "b" : {number} , "a" : [ {number} ] }}'.encode()) == f'{{"b":{number},"a":[{number}]}}'


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (r'"\u0041\/\u00e9\u5bb6"', '"A/é家"'),
        (r'"\ud83c\udfe0"', '"🏠"'),
        (r'"\ud83c"', '"\ufffd"'),
        (r'"\n\t\\\" \\u0041 \u000a \u0022 \u005c"', r'"\n\t\\\" \\u0041 \u000a \u0022 \u005c"'),
    ],
)
def test_compact_writes_readable_characters_and_keeps_escapes_that_must_stay(text: str, made: str) -> None:
    assert source.compact(text.encode()) == made


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return math.isclose(left, right) or left == right
    return left == right


@given(values())
def test_compact_says_the_same_without_blanks(value: str) -> None:
    tight = source.compact(value.encode())
    assert _same(json.loads(tight), json.loads(value))
    assert len(tight.encode()) <= len(value.encode())


@pytest.mark.parametrize(
    ("value", "there"), [(b"", False), (b"null", False), (b"0", True), (b'""', True), (b"false", True), (b"[]", True)]
)
def test_a_member_is_present_unless_it_is_missing_or_null(value: bytes, there: bool) -> None:
    assert source.present(msgspec.Raw(value)) == there
