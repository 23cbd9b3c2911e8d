"""Hold a part to the text that stands for it and to what it weighs."""

import pytest
from openmem_addon.core import media

from tests.addon.core.responses.made import PIXEL, drafts, item


@pytest.mark.parametrize(
    ("part", "row"),
    [
        (f'{{"type":"input_image","image_url":"data:image/png;base64,{PIXEL}"}}', "[image image/png 60 bytes"),
        ('{"type":"input_image","image_url":"https://example.org/a.png"}', "[image 25 bytes"),
        ('{"type":"input_image","file_id":"file-1"}', "[image 6 bytes"),
        ('{"type":"input_file","file_data":"data:application/pdf;base64,AAAA"}', "[document application/pdf 4 bytes"),
        ('{"type":"input_file","file_url":"https://example.org/a.pdf"}', "[document 25 bytes"),
        ('{"type":"input_file"}', "[document 21 bytes"),
        ('{"type":"input_audio","x":1}', "[input_audio 28 bytes"),
    ],
)
def test_a_part_that_is_no_text_is_described(part: str, row: str) -> None:
    ((_, _, _, text),) = drafts(f'{{"role":"user","content":[{part}]}}')
    assert text.startswith(row + " sha256:")


def test_a_screenshot_is_described_and_weighed() -> None:
    shot = f'{{"type":"computer_screenshot","image_url":"data:image/png;base64,{PIXEL}"}}'
    read = item(f'{{"type":"computer_call_output","call_id":"c","output":{shot}}}')
    assert read.drafts[0].text.startswith("[image image/png 60 bytes sha256:")
    assert read.media == 85 + 170
    assert read.results == ()


def test_a_document_weighs_its_pages() -> None:
    read = item('{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}')
    assert read.media == media.PAGE_TOKENS
