"""Counts and how OpenAI reports them."""

from fixtures.provider.openai import usage
from fixtures.provider.openai.caching import Use
from fixtures.provider.openai.usage import Counts

USE = Use(total=2_000, read=1_024, written=896)


def test_cached_tokens_are_part_of_the_prompt():
    counts = usage.counted(USE, output=10, reasoning=4, writes=True)
    assert (counts.fresh, counts.prompt) == (80, 2_000)
    assert usage.chat(counts)["prompt_tokens_details"] == {
        "cached_tokens": 1_024,
        "audio_tokens": 0,
        "cache_write_tokens": 896,
    }
    assert usage.responses(counts) == {
        "input_tokens": 2_000,
        "input_tokens_details": {"cached_tokens": 1_024, "cache_write_tokens": 896},
        "output_tokens": 10,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 2_010,
    }


def test_an_older_model_reports_no_writes():
    counts = usage.counted(USE, output=10, reasoning=0, writes=False)
    assert (counts.fresh, counts.prompt) == (976, 2_000)
    assert "cache_write_tokens" not in usage.chat(counts)["prompt_tokens_details"]
    assert "cache_write_tokens" not in usage.responses(counts)["input_tokens_details"]


def test_a_script_replaces_counts_by_the_names_of_the_messages_wire():
    counts = Counts(fresh=1, read=2, written=None, output=3, reasoning=0)
    assert counts.replaced({}) == counts
    changed = counts.replaced({"input_tokens": 990_000, "output_tokens": 7})
    assert usage.chat(changed)["prompt_tokens"] == 990_002
    assert usage.responses(changed)["output_tokens"] == 7
