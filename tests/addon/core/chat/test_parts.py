"""Hold a part to the text that stands for it and to what it weighs."""

import pytest
from openmem_addon.core import media

from tests.addon.core.chat.made import PIXEL, item


@pytest.mark.parametrize(
    ("part", "row"),
    [
        (f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{PIXEL}"}}}}', "[image image/png 60 bytes"),
        ('{"type":"image_url","image_url":{"url":"https://example.org/a.png"}}', "[image 25 bytes"),
        (
            '{"type":"file","file":{"file_data":"data:application/pdf;base64,AAAA"}}',
            "[document application/pdf 4 bytes",
        ),
        ('{"type":"file","file":{"file_data":"AAAA"}}', "[document 4 bytes"),
        ('{"type":"file","file":{"file_id":"file-1"}}', "[document 6 bytes"),
        ('{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}', "[input_audio audio/wav 4 bytes"),
        ('{"type":"other_thing","x":1}', "[other_thing 28 bytes"),
    ],
)
def test_a_part_that_is_no_text_is_described(part: str, row: str) -> None:
    (draft,) = item(f'{{"role":"user","content":[{part}]}}').drafts
    assert draft.text.startswith(row + " sha256:")


def test_a_part_is_described_the_same_with_and_without_a_cache_marker() -> None:
    bare = item('{"role":"user","content":[{"type":"other_thing","x":1}]}')
    marked = item('{"role":"user","content":[{"type":"other_thing","x":1,"cache_control":{"type":"ephemeral"}}]}')
    assert bare.drafts == marked.drafts


@pytest.mark.parametrize(
    ("part", "weight"),
    [
        ('{"type":"image_url","image_url":{"url":"https://example.org/a.png","detail":"low"}}', 85),
        (f'{{"type":"image_url","image_url":{{"url":"data:image/png;base64,{PIXEL}"}}}}', 85 + 170),
        ('{"type":"file","file":{"file_id":"file-1"}}', media.PAGE_TOKENS),
        ('{"type":"text","text":"hello"}', 0),
    ],
)
def test_a_part_weighs_what_the_provider_bills(part: str, weight: int) -> None:
    assert item(f'{{"role":"user","content":[{part}]}}').media == weight
