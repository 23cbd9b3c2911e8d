"""Where a pattern stops being a regular expression."""

import random

import pytest
import regress
from openmem_store.reader import expression, syntax


def compiles(pattern: str) -> bool:
    try:
        expression.compiled(pattern)
    except regress.RegressError:
        return False
    return True


@pytest.mark.parametrize(
    ("pattern", "rest"),
    [
        ("(", "("),
        ("a(b(c)", "(b(c)"),
        ("a))b", "))b"),
        ("(a|b", "(a|b"),
        ("(?P<n>a)", "(?P<n>a)"),
        ("x(?i)a", "(?i)a"),
        ("x(?<n", "(?<n"),
        ("x(?>a)", "(?>a)"),
        ("[z-a]", "z-a]"),
        ("[a-", "[a-"),
        ("x[^", "[^"),
        (r"^\S+ [ERROR (billing", "[ERROR (billing"),
        ("foo(bar[z-a", "z-a"),
        ("*a", "*a"),
        ("a**", "*"),
        ("ab++", "+"),
        ("a|*", "*"),
        ("a{2,1}", "{2,1}"),
        ("a{1}{2}", "{2}"),
        ("(?<=a)*", "*"),
        ("ab\\", "\\"),
        ("(?<n>a)(?<n>b)", "(?<n>b)"),
        (r"(?<n>a)\k<m>", r"\k<m>"),
        (r"x\k<m>(?<n>a)", r"\k<m>(?<n>a)"),
        ("é😀(", "("),
    ],
)
def test_the_place_is_where_the_trouble_begins(pattern: str, rest: str) -> None:
    assert not compiles(pattern)
    place = syntax.position(pattern, compiles)
    assert place is not None
    assert pattern[place:] == rest


PARTS = r"""a b \d \w \b . [a-c] [^a] [] [^] [a-] [\d-z] [z-a] ( ) (?: (?= (?! (?<= (?<! (?<n> \k<n> \k \1 \07 * + ?
{2} {,3} {2,} {2,1} { } ] [ | ^ $ \x41 \x4 \u0041 \u{61} \u \c \cJ \p{L} \p \e \- / 😀 \ (?i: (?i) (?P<n> (?>
++ *?""".split()


def endings(start: str) -> list[str]:
    return [start + end + ")" * depth for end in ("", "]") for depth in range(7)]


def test_a_place_is_found_in_whatever_does_not_compile_and_what_is_before_it_can_be_completed() -> None:
    invent = random.Random(1)
    wrong = 0
    for _ in range(1000):
        pattern = "".join(invent.choices(PARTS, k=invent.randint(1, 6)))
        if compiles(pattern):
            continue
        wrong += 1
        place = syntax.position(pattern, compiles)
        assert place is not None, pattern
        assert place < len(pattern), pattern
        # What a reference names may be wrong only because of what follows it.
        assert pattern.startswith(r"\k<", place) or any(map(compiles, endings(pattern[:place]))), pattern
    assert wrong > 300


def test_where_nothing_compiles_no_place_is_made_up() -> None:
    assert syntax.position("a", lambda part: False) is None
    assert syntax.position("", lambda part: False) is None
