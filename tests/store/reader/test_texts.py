"""What a model reads, held against what the tools do."""

import re

import apsw
import pytest
from openmem_store import schema
from openmem_store.reader import pattern, runner, sql, texts, turns
from openmem_store.reader.answers import MOST_WEIGHT


def test_the_instructions_work_without_the_tool_list() -> None:
    """They are all that some clients put into the prompt; a proxy recognises the tools by them."""
    for name in texts.TOOLS:
        assert name in texts.INSTRUCTIONS
    assert len(texts.INSTRUCTIONS) < 2000


def test_what_every_client_shows_of_the_instructions_says_when_and_how_to_search() -> None:
    """A client that cuts them shows no tool list either, and a proxy that does not find the tool trims nothing."""
    shown = texts.INSTRUCTIONS[: texts.SHOWN_AT_LEAST]
    assert "removed from your context" in shown
    assert 'smart_compact_search(query="words") and never guess.' in shown


def test_the_limits_in_the_descriptions_are_those_of_the_code() -> None:
    assert f"At most {runner.MOST_ROWS} rows and {sql.MOST_CHARACTERS:,} characters" in texts.SQL
    assert f"stopped after {sql.SECONDS:g} s" in texts.SQL
    assert f"at most {pattern.MOST_CHARACTERS} characters" in texts.PATTERN
    assert str(MOST_WEIGHT) in texts.PAGE_LIMIT


@pytest.mark.parametrize("heading", [turns.FIRST, turns.ASKING])
def test_the_headings_that_are_no_data_are_named_as_they_are(heading: str) -> None:
    for text in (texts.SEARCH, texts.SQL):
        assert f'"{heading}"' in text.replace("\n", " ")


@pytest.mark.parametrize("table", ["messages", "lines", "events"])
def test_the_columns_in_the_description_exist(table: str) -> None:
    connection = apsw.Connection(":memory:")
    schema.migrate(connection)
    exist = {name for (name,) in connection.execute(f"SELECT name FROM pragma_table_info('{table}')")}
    described = re.search(rf"\b{table}\((.*?)\)", texts.SQL, re.DOTALL)
    assert described is not None
    named = {re.match(r"\w+", part.strip())[0] for part in described[1].split(",")}  # type: ignore[index]
    assert named <= exist
