"""Hold the README's table of settings to the code: it is what `make settings` writes."""

from pathlib import Path

import pytest
from openmem_store import manual
from openmem_store.settings import SOURCES, Settings

ROOT = Path(__file__).parents[2]


def test_the_readme_is_what_make_settings_writes() -> None:
    text = (ROOT / "README.md").read_text()
    assert manual.written(text) == text


def test_every_setting_has_a_line_in_the_order_of_the_fields() -> None:
    named = [line.split("`")[1] for line in manual.table().splitlines()[2:]]
    assert named == [*(source.variable for source in SOURCES.values()), "OPENMEM_STATE_DIR", "OPENMEM_CONFIG"]


@pytest.mark.parametrize(
    "line",
    [
        "| `CONTEXT_TRIM_TOKENS` | `[context_proxy]` `trim_tokens` | 120000 | Prompt tokens at which a trim runs. |",
        "| `CONTEXT_COMPACTION_TIMEOUT_S` | `[compaction]` `timeout_s` | 2 | "
        "Seconds a trim waits for the memory provider. |",
        "| `CONTEXT_EMBEDDING_API_KEY` | | none | Its bearer token; in the environment only. |",
        "| `CONTEXT_RECORD_ALL` | `[context_proxy]` `record_all` | 0 | "
        "1 = also record requests that name no session. |",
        "| `OPENMEM_STATE_DIR` | | `~/.local/share/openmem` | The store is `context` in it. |",
    ],
)
def test_a_line_says_where_it_is_set_the_default_as_typed_and_what_it_means(line: str) -> None:
    assert line in manual.table().splitlines()


def test_every_field_says_what_it_means() -> None:
    assert set(manual._meanings()) == set(Settings.__struct_fields__)


def test_only_the_table_of_a_document_changes() -> None:
    document = f"before\n\n{manual.HEAD}\n| --- |\n| old |\n\nafter | that\n| another |\n"
    assert manual.written(document) == f"before\n\n{manual.table()}\nafter | that\n| another |\n"


def test_a_document_without_the_table_is_an_error() -> None:
    with pytest.raises(ValueError, match="no table begins with"):
        manual.written("nothing here\n")
