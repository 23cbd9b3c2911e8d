"""Words that the store has instead of the ones a query says."""

import pytest
from openmem_store.layout import Layout
from openmem_store.reader import source
from openmem_store.reader.vocabulary import Vocabulary, one_slip, says_something
from openmem_store.reader.words import Tokenizer, parse

from tests.store.reader.conversation import said, store


def test_other_endings_are_relatives(layout: Layout) -> None:
    with source.opened(store(layout, "s", said("deployed deploys deployer happy happiness deploy"))) as connection:
        vocabulary, tokenizer = Vocabulary(connection), Tokenizer(connection)
        found = vocabulary.relatives(parse("deploying happy the deploys-happy", tokenizer))
        assert found == [
            ("deploy", "deployed", "deploys"), ("happiness",), (), ("deploy", "deployed", "happiness"),
        ]  # fmt: skip
        assert vocabulary.relatives(parse("the", tokenizer)) == [()]


def test_terms_of_an_index_that_cuts_otherwise_are_stemmed_one_by_one(layout: Layout) -> None:
    """Should a term not be one token, those after it still get their own stems."""
    with source.opened(store(layout, "s", said("x"))) as connection:
        stems = Vocabulary(connection).stems
        assert stems(["walked", "walks"]) == [("walk",), ("walk",)]
        assert stems(["two words", "walks"]) == [("two", "word"), ("walk",)]
        assert stems([]) == []


def test_words_written_together_are_joined(layout: Layout) -> None:
    with source.opened(store(layout, "s", said("call getApiKey now"))) as connection:
        asked = parse("how to get api key here", Tokenizer(connection))
        assert Vocabulary(connection).joined(asked) == {"getapikey": (2, 5)}


@pytest.mark.parametrize("slip", ["handler", "handlrs", "handlesr", "xhandlers", "hqndlers", "handlerz", "ahndlers"])
def test_one_slip_is_found(layout: Layout, slip: str) -> None:
    with source.opened(store(layout, "s", said("the handlers and the handle"))) as connection:
        assert "handlers" in Vocabulary(connection).slips(parse(slip, Tokenizer(connection))[0])


@pytest.mark.parametrize(
    ("one", "other", "slip"),
    [
        ("abc", "abc", False), ("abc", "abcd", True), ("abcd", "abc", True), ("abc", "acb", True),
        ("abc", "axc", True), ("abc", "cba", False), ("abc", "abcde", False), ("ab", "ba", True), ("", "a", True),
    ],
)  # fmt: skip
def test_a_slip_is_one_character(one: str, other: str, slip: bool) -> None:
    assert one_slip(one, other) is slip


def test_stop_words_and_single_letters_say_nothing(layout: Layout) -> None:
    with source.opened(store(layout, "s", said("x"))) as connection:
        tokenizer = Tokenizer(connection)
        telling = [word.text for word in parse("What is the KEY-7 of 7 a 木 --", tokenizer) if says_something(word)]
    assert telling == ["KEY-7", "7", "木", "--"]


def test_terms_that_glue_a_word_to_a_script_without_spaces_stand_for_it(layout: Layout) -> None:
    texts = ("重跑gen检查 gen重 跑gen", "generation regen gena重 agen重", "gen")
    with source.opened(store(layout, "s", *map(said, texts))) as connection:
        asked = parse("gen 重跑 gen-x --", Tokenizer(connection))
        found = Vocabulary(connection).glued(asked)
        assert [sorted(each.glued) for each in found] == [["gen重", "跑gen", "重跑gen检查"], [], [], []]
        assert [each.phrase for each in asked] == ['"gen"', '"重跑"', '"gen-x"', '"--"']


def test_a_run_that_is_too_long_for_the_index_hides_no_other_term(layout: Layout) -> None:
    """The index cuts it inside a character."""
    run = "设备" * 6000
    with source.opened(store(layout, "s", said(f"needle {run} 设备needle 设备设备清 needles"))) as connection:
        vocabulary, tokenizer = Vocabulary(connection), Tokenizer(connection)
        (word,) = vocabulary.glued(parse("needle", tokenizer))
        assert word.glued == ("设备needle",)
        assert vocabulary.relatives(parse("设备设备 needle", tokenizer)) == [(), ("needles",)]
        assert vocabulary.slips(parse("needlse", tokenizer)[0]) == ("needle", "needles")
        assert vocabulary.joined(parse("nee dle", tokenizer)) == {"needle": (0, 2)}


def test_without_such_a_script_no_word_is_glued(layout: Layout) -> None:
    with source.opened(store(layout, "s", said("gen générique Γεν ген"))) as connection:
        asked = parse("gen ген", Tokenizer(connection))
        assert Vocabulary(connection).glued(asked) == list(asked)
