"""A pattern for one line, run over a whole text."""

import apsw
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
        compiled = expression.compiled(pattern)
    except regress.RegressError:
        return
    if compiled.lines is None:  # an octal number, which two atoms may make
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


PHRASES = {
    "^SET K00123 = ": '"SET K00123"',
    r"^\S+Z \[INFO\] billing req=": '"INFO billing req"',
    r"^retry\s+limit$": '"retry" AND "limit"',
    r"x y? z w ": '"z w"',
    "KEY-7": "",
    " KEY-7 ": '"KEY 7"',
    "a b c|d": "",
    "((a)) b c ": "",
    r"\bword\b": "",
    "éa b c é": '"b c"',
    r"(?<n>a)-\k<n> b ": '"b"',
    r"[a b] c d [e]": '"c d"',
    r"\p{Script_Extensions=Greek}+ a b ": '"a b"',
}


@pytest.mark.parametrize(("pattern", "query"), PHRASES.items())
def test_the_words_that_a_pattern_spells_out_are_known(pattern: str, query: str) -> None:
    assert expression.phrases(pattern) == query


SPELLED = st.lists(
    st.sampled_from(
        [
            *"ab1_-. =",
            *(r"\s", r"\s+", r"\s*", r"\.", r"\w", "^", "$", "[ab]", "a?", " *", "(b)", "é", "b+", " {1}", "a|"),
        ]
    ),
    max_size=9,
).map("".join)
SPOKEN = st.text("ab1_-. =\né\u0301\u2028", max_size=16)


@given(SPELLED, SPOKEN)
@example("a b ", "a b c")
@example("a\\s*b a ", "ab a ")
def test_no_text_that_matches_is_missed_by_its_words(pattern: str, text: str) -> None:
    try:
        found = regress.Regex(pattern, expression.FLAGS).find(text)
    except regress.RegressError:
        return
    query = expression.phrases(pattern)
    if found is None or not query:
        return
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE t USING fts5 (text)")
    connection.execute("INSERT INTO t VALUES (?)", (text,))
    assert connection.execute("SELECT count(*) FROM t WHERE t MATCH ?", (query,)).get == 1
