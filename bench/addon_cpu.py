"""CPU of the addon for one more request of a growing session, by step and as a ratio to a floor.

The floor takes the body apart into raw messages and joins them again, which any rewriting must.
Steps: parse (items and rows' texts), decide (hash, plan), render, store (one transaction).
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from openmem_addon.core import anthropic, rewrite
from openmem_addon.core.model import Conversation
from openmem_addon.core.rewrite import Policy, Rewrite
from openmem_addon.core.view import Thread
from openmem_store.writer import SessionWriter

AT = "2026-01-01T00:00:00Z"
POLICY = Policy(
    sid="bench",
    may_change=True,
    force=False,
    instruct=True,
    require_tools=True,
    trim_tokens=1 << 40,
    tail_tokens=1 << 20,
    compress_tokens=4000,
    chars_per_token=2.5,
)

Json = dict[str, object]


def session(messages: int, size: int) -> list[Json]:
    """Return a tool-using history of `messages` messages and about `size` bytes."""
    line = "copper lantern by the orchard wall, value = 17;\n"
    each = max(1, size // messages * 2 // len(line))
    history: list[Json] = [{"role": "user", "content": "Read the pages."}]
    while len(history) < messages:
        number = len(history)
        call = {"type": "tool_use", "id": f"call{number}", "name": "run", "input": {"cmd": f"cat {number}.txt"}}
        text = {"type": "text", "text": f"Page {number} is next."}
        history.append({"role": "assistant", "content": [text, call]})
        result = {"type": "tool_result", "tool_use_id": f"call{number}", "content": f"{number}\n{line * each}"}
        history.append({"role": "user", "content": [result]})
    return history


def body(history: list[Json]) -> bytes:
    """Return a request as Claude Code writes it, the cache marker on its last block."""
    last = dict(history[-1])
    content = last["content"]
    assert isinstance(content, list)
    last["content"] = [{**content[-1], "cache_control": {"type": "ephemeral"}}]
    return msgspec.json.encode(
        {
            "model": "bench",
            "messages": [*history[:-1], last],
            "system": [{"type": "text", "text": "An invented system text. " * 400}],
            "tools": [{"name": "smart_compact_search", "description": "Search. " * 40, "input_schema": {}}],
            "max_tokens": 4096,
            "stream": True,
        }
    )


def floor(text: bytes) -> bytes:
    fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    messages = msgspec.json.decode(fields["messages"], type=list[msgspec.Raw])
    return msgspec.json.encode({**fields, "messages": messages})


def cpu(work: Callable[[], object], repeats: int) -> float:
    """Return the median CPU of a call, milliseconds."""
    times: list[float] = []
    for _ in range(repeats):
        begin = time.thread_time()
        work()
        times.append(time.thread_time() - begin)
    return statistics.median(times) * 1e3


def measure(messages: int, size: int, repeats: int, folder: Path) -> None:
    history = session(messages, size)
    before, after = body(history[:-2]), body(history)
    former = anthropic.parse(before)
    first = rewrite.decide(former, None, POLICY, sample=None)
    thread: Thread = first.thread
    writer = SessionWriter(folder / "sessions" / f"s{messages}-{size}.db", version="bench")

    def store(result: Rewrite) -> None:
        writer.sync(result.rows, dropped=result.dropped, cut=None, owned=0, blobs=result.blob_ids, at=AT)

    store(first)
    conversation: Conversation = anthropic.parse(after, former)
    result = rewrite.decide(conversation, thread, POLICY, sample=None, known_rows=first.rows)
    steps = {
        "floor": cpu(lambda: floor(after), repeats),
        "parse": cpu(lambda: anthropic.parse(after, former), repeats),
        "decide": cpu(
            lambda: rewrite.decide(conversation, thread, POLICY, sample=None, known_rows=first.rows), repeats
        ),
        "render": cpu(lambda: anthropic.render(conversation, result.rendering), repeats),
        "store": cpu(lambda: store(result), repeats),
    }
    total = sum(steps.values()) - steps["floor"]
    anew = cpu(lambda: rewrite.decide(anthropic.parse(after), thread, POLICY, sample=None), 3)
    shares = "  ".join(f"{name} {value:7.2f}" for name, value in steps.items())
    ratio = f"all {total:6.2f} ms = {total / steps['floor']:4.2f} floors (read anew {anew / steps['floor']:4.1f})"
    print(f"{messages:>6} messages {len(after) / 1e6:5.1f} MB   {shares}   {ratio}")
    writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for messages, size in ((100, 100_000), (1_000, 1_000_000), (2_000, 2_000_000), (10_000, 10_000_000)):
            measure(messages, size, given.repeats, Path(folder))


if __name__ == "__main__":
    main()
