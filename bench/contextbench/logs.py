"""Own the log-triage task: log lines arrive in batches, then questions look a line up or count lines.

The instruction quotes two lines of the very shape that is counted, and the questions name level and
service as the lines do: a count over all text that was ever sent counts these too.
"""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta

import msgspec

from bench.contextbench.stream import QUESTIONS, READY, Kind, Operation, Question, Stream, block, tag, titled, words

CHARACTERS_PER_TOKEN = 2.35
BATCH = (14, 54)
"""Fewest and most lines."""

LEVELS = ("INFO", "INFO", "INFO", "DEBUG", "WARN", "ERROR")
SERVICES = ("billing", "db-proxy", "auth-api", "mailer", "scheduler", "gateway", "search-ui", "archive")
TEXT_WORDS = (8, 13)

SAMPLES = (
    "2026-06-19T09:00:00Z [ERROR] billing req=00000000 sample of a line, it counts for nothing #00000000",
    "2026-06-19T09:00:01Z [WARN] gateway req=00000001 another sample, it counts for nothing #00000001",
)

INSTRUCTION = f"""\
You watch the log of some services. Operations arrive one at a time.
A log batch gives you lines `<time> [<LEVEL>] <service> req=<id> <text> #<tag>`, for example
{SAMPLES[0]}
{SAMPLES[1]}
Remember every line of the batches. A query asks for one value: answer with an ANSWER block,
<<<ANSWER qid=<number>>>> on one line, the value alone on the next, <<<ANSWER END>>> on the last.
End every reply with {READY}."""


class Line(msgspec.Struct, frozen=True):
    """One log line."""

    level: str
    service: str
    request: str
    text: str


def generate(lines: int, *, seed: int, questions: int = QUESTIONS) -> Stream:
    """Return a stream of so many log lines."""
    source = random.Random(f"log {lines} {seed}")
    log = [_line(source, number) for number in range(lines)]
    batches: list[list[Line]] = []
    start = 0
    while start < lines:
        size = source.randint(*BATCH)
        batches.append(log[start : start + size])
        start += size
    queries = _queries(source, log, questions)
    left = len(batches) + len(queries)
    operations = [Operation(INSTRUCTION)]
    start = 0
    for number, batch in enumerate(batches):
        left -= 1
        body = block("LOG", number, tag(source), (line.text for line in batch))
        operations.append(Operation(titled(f"log batch (lines {start}-{start + len(batch) - 1})", left, body)))
        start += len(batch)
    for number, (asked, question) in enumerate(queries):
        left -= 1
        body = f"QUERY {number}: {asked}\n(Answer with an ANSWER block for qid={number}.)"
        operations.append(Operation(titled(f"query {number}", left, body), question))
    return Stream(f"log L{lines}", tuple(operations), CHARACTERS_PER_TOKEN)


def _line(source: random.Random, number: int) -> Line:
    at = datetime(2026, 6, 20, 14, tzinfo=UTC) + timedelta(seconds=number)
    level, service, request = source.choice(LEVELS), source.choice(SERVICES), tag(source)
    text = words(source, source.randint(*TEXT_WORDS))
    shown = f"{at:%Y-%m-%dT%H:%M:%SZ} [{level}] {service} req={request} {text} #{tag(source)}"
    return Line(level, service, request, shown)


def _queries(source: random.Random, log: list[Line], count: int) -> list[tuple[str, Question]]:
    """Return the questions' texts and golds, half of each kind, the samples' own level and service among them."""
    counts = Counter((line.level, line.service) for line in log)
    pairs = [("ERROR", "billing"), ("WARN", "gateway")]
    others = sorted(counts.keys() - set(pairs))
    pairs += source.sample(others, min(len(others), count // 2 - len(pairs)))
    asked: list[tuple[str, Kind, str]] = [
        (f'How many [{level}] log lines are from service "{service}"?', "count", str(counts[level, service]))
        for level, service in pairs
    ]
    asked += [
        (f"Which service logged the line with request id req={line.request}?", "lookup", line.service)
        for line in source.sample(log, min(len(log), count - len(asked)))
    ]
    source.shuffle(asked)
    return [(text, Question(f"qid={number}", kind, gold)) for number, (text, kind, gold) in enumerate(asked)]
