"""Hold a content block to the text that stands for it, what it weighs and what it loads."""

import pytest
from openmem_addon.core import anthropic

from fixtures.provider.wire import Json
from tests.addon.core.anthropic.made import PNG, parsed, size_and_hash
from tests.conversations import (
    LATER,
    PIXEL,
    assistant,
    body,
    encode,
    result,
    text,
    use,
    user,
)

REFERENCE = f'{{"type":"tool_reference","tool_name":"{LATER}"}}'


def test_an_image_is_described_by_typesize_and_hash() -> None:
    assert parsed(user({"type": "image", "source": PNG})).items[0].drafts[0].text == (
        f"[image image/png {size_and_hash(PIXEL)}]"
    )


HELD: dict[str, tuple[Json, str]] = {
    "what a search found": (
        {"type": "search_result", "source": "https://example.com", "title": "t", "content": [text("a"), text("b")]},
        "t\nhttps://example.com\na\nb",
    ),
    "a document of parts": (
        {"type": "document", "title": None, "source": {"type": "content", "content": [text("a"), text("b")]}},
        "a\nb",
    ),
    "a document of one text": ({"type": "document", "source": {"type": "content", "content": "a"}}, "a"),
    "a summary of the provider's": ({"type": "compaction", "content": "so far"}, "so far"),
}


@pytest.mark.parametrize(("block", "words"), HELD.values(), ids=HELD)
def test_the_text_that_a_block_holds_inside_is_its_row(block: Json, words: str) -> None:
    """It is what the model read, and would be lost to every search as a hash."""
    conversation = parsed(user("go", block), assistant(use("toolu_1")), user(result("toolu_1", [block])))
    assert [draft.text for draft in conversation.items[0].drafts] == ["go", words]
    assert [draft.text for draft in conversation.items[2].drafts] == [words]
    assert conversation.items[2].results == ()


def test_a_page_that_was_found_is_known_by_title_and_address() -> None:
    page = {"type": "web_search_result", "url": "https://example.com", "title": "t", "encrypted_content": "x"}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [page]}
    row = parsed(user("go"), assistant({"type": "server_tool_use", "id": "s", "name": "q", "input": {}}, found))
    assert row.items[1].drafts[1].text.startswith("t\nhttps://example.com\n[web_search_result 92 bytes ")


@pytest.mark.parametrize("content", [None, "", []])
def test_a_summary_that_failed_is_described(content: object) -> None:
    block = {"type": "compaction", "content": content}
    assert parsed(user("go"), assistant(block, "yes")).items[1].drafts[0].text.startswith("[compaction ")


def test_a_number_in_an_input_is_stored_as_it_was_written() -> None:
    raw = encode(body(user("go"), assistant(use("toolu_1", input="HERE")), user(result("toolu_1"))))
    raw = raw.replace(b'"HERE"', b'{"z": 1E5, "a":-0, "p":"\\/x\\u00e9"}')
    assert anthropic.parse(raw).items[1].drafts[0].text == '{"z":1E5,"a":-0,"p":"/xé"}'


def test_the_tools_a_result_loads_are_named_whoever_searched() -> None:
    reference = {"type": "tool_reference", "tool_name": LATER}
    inside = {"type": "tool_search_tool_search_result", "tool_references": [reference]}
    served = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": inside}
    failed = {"type": "tool_search_tool_result", "tool_use_id": "srvtoolu_1", "content": {"type": "tool_reference"}}
    conversation = parsed(
        user("go"), assistant(use("t")), user(result("t", [reference, text("loaded")])), assistant(served, failed)
    )
    assert [item.loads for item in conversation.items] == [(), (), (LATER,), (LATER,)]
    assert conversation.items[2].results == ()


def test_images_count_by_their_size_in_a_message_and_in_a_result() -> None:
    image = {"type": "image", "source": PNG}
    conversation = parsed(user("go", image), assistant(use("t")), user(result("t", [image, image])))
    assert [item.media for item in conversation.items] == [26, 0, 52]
