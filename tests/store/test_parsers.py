import math

import pytest
from openmem_store.parsers import TOKENS, Parser, choice, flag, hosts, number, text, url, whole

GOOD: list[tuple[Parser, object, object]] = [
    (flag, "1", True),
    (flag, "TRUE", True),
    (flag, "on", True),
    (flag, "No", False),
    (flag, "0", False),
    (flag, True, True),
    (flag, 0, False),
    (text, "any text", "any text"),
    (choice("trim", "observe"), "observe", "observe"),
    (whole(0, 9), "7", 7),
    (whole(0, 9_999), "+1_000", 1_000),
    (whole(-5, 9), "-5", -5),
    (whole(0, 9), 9, 9),
    (number(0, 1), "0.25", 0.25),
    (number(0, 1), 1, 1.0),
    (number(0, 1), "1e-3", 0.001),
    (
        hosts,
        "LLM.example.com, *.example.org  10.0.0.1,llm.example.com",
        ("llm.example.com", "*.example.org", "10.0.0.1"),
    ),
    (hosts, ["a", "b.c:8443"], ("a", "b.c:8443")),
    (hosts, [], ()),
    (url, "http://127.0.0.1:11434/v1/", "http://127.0.0.1:11434/v1"),
    (url, "https://user:word@example.com", "https://user:word@example.com"),
    (TOKENS, "120_000", 120_000),
]

BAD: list[tuple[Parser, object]] = [
    *[(flag, value) for value in ("", "2", "maybe", 2, 1.0, None, [])],
    *[(text, value) for value in (1, None, ["a"])],
    *[(choice("trim", "observe"), value) for value in ("Trim", "", 1, None)],
    *[(whole(0, 9), value) for value in ("", "x", "1.5", "-1", "10", 10, 1.0, True, "1__0", "٣", "9" * 5_000, None)],
    *[(number(0, 1), value) for value in ("", "x", "nan", math.nan, "inf", math.inf, -0.1, 1.1, True, 10**400, None)],
    *[
        (hosts, value)
        for value in ("https://a.b", "a.b:", "a.b:port", "a/b", "-a", "a..b", "*", "a.*", "ä.b", [1], 1, {"a": 1}, [""])
    ],
    *[(url, value) for value in ("", "example.com", "ftp://a", "http://", "http://[", 1, None)],
]


@pytest.mark.parametrize(("parse", "given", "parsed"), GOOD)
def test_a_good_value_is_taken_from_text_and_from_toml(parse: Parser, given: object, parsed: object) -> None:
    found = parse(given)
    assert found == parsed
    assert type(found) is type(parsed)


@pytest.mark.parametrize(("parse", "given"), BAD)
def test_a_bad_value_is_refused_with_what_is_allowed(parse: Parser, given: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        parse(given)


def test_a_refused_url_is_not_repeated() -> None:
    with pytest.raises(ValueError, match="not shown") as caught:
        url("me:secret@example.com")
    assert "secret" not in str(caught.value)
