"""A pattern for one line, run over a whole text."""

import pytest
import regress
from hypothesis import example, given
from hypothesis import strategies as st
from openmem_store.reader import expression

ATOMS = (
    *("a", "b", "1", "x", " ", "é", ".", "^", "$", "\n", r"\.", r"\n", r"\r", r"\t", r"\0", r"\x0a", r"\x41"),
    *(r"\u000a", r"\cJ", r"\s", r"\S", r"\w", r"\W", r"\d", r"\D", r"\b", r"\B", "[ab]", "[a-c]", "[^a]", "[^]"),
    *("[]", r"[\s,]", r"[^\s]", r"[\W1]", r"[\t-z]", "[\t-z]", r"[\x00-\x20]", "[\n ]", r"[^\D]", r"[\b-z]"),
)
GROUPS = ("(%s)", "(?:%s)", "(?=%s)", "(?!%s)", "(?<=%s)", "(?<!%s)", "%s|b")
QUANTIFIERS = ("", "", "*", "+", "?", "{1,2}", "*?")

PATTERNS = st.recursive(
    st.tuples(st.sampled_from(ATOMS), st.sampled_from(QUANTIFIERS)).map("".join),
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(GROUPS), inner).map(lambda each: each[0] % each[1]),
        st.lists(inner, min_size=2, max_size=3).map("".join),
    ),
    max_leaves=6,
)
TEXTS = st.text("ab x1,.\n\té\r\0A\u2028", max_size=14)


def one_by_one(pattern: str, text: str) -> list[int]:
    line = regress.Regex(pattern, expression.FLAGS)
    return [number for number, each in enumerate(text.split("\n"), 1) if line.find(each) is not None]


def at_once(pattern: str, text: str) -> list[int]:
    rewritten = expression.per_line(pattern)
    assert rewritten is not None
    encoded = (text + "\n").encode()
    found = regress.Regex(rewritten, expression.FLAGS).find_iter(text + "\n") or ()
    return [encoded.count(b"\n", 0, match.range().stop) for match in found]


@given(PATTERNS, TEXTS)
@example(r"a*", "b\n\nab")
@example(r"[^b]+", "b\na\n\na")
@example(r"a\s+b", "a\nb\na b")
@example(r"(?<=\W)a", "a\n a")
def test_the_lines_found_at_once_are_those_found_one_by_one(pattern: str, text: str) -> None:
    try:
        regress.Regex(pattern, expression.FLAGS)
    except regress.RegressError:
        return
    assert at_once(pattern, text) == one_by_one(pattern, text)


@pytest.mark.parametrize("pattern", ["(?s:a.b)", "(?is:a.b)", r"\p{L}", r"\12", r"(a)\10"])
def test_a_pattern_that_cannot_be_told_to_stay_on_a_line_is_known(pattern: str) -> None:
    assert expression.per_line(pattern) is None


@pytest.mark.parametrize(
    ("pattern", "crosses"),
    [(r"a\nb", True), (r"a\s+b", True), ("[^x]", True), (r"\W", True), ("^a.b$", False), ("a b", False)],
)
def test_patterns_that_may_cross_lines_are_known(pattern: str, crosses: bool) -> None:
    assert expression.compiled(pattern).crosses is crosses


def test_groups_keep_their_names_and_numbers() -> None:
    assert at_once(r"(?<year>\d)-\k<year>", "1-1\n1-2\n2-2") == one_by_one(r"(\d)-\1", "1-1\n1-2\n2-2") == [1, 3]
