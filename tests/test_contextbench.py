"""The scripted agent of bench/contextbench in small, through the real proxy and the real search server."""

from pathlib import Path

import pytest

from bench.contextbench import keyvalue, logs
from bench.contextbench.line import Counts, Outcome, run
from bench.contextbench.stream import Operation, Question, Stream, answer, grade

THRESHOLD = 16_000
LARGEST = 9_000
"""Tokens of the largest operation: one trim may come with the request that goes over the threshold."""

VALUES = keyvalue.generate(500, seed=7, overwritten=0.3, questions=12)
LOG = logs.generate(500, seed=7, questions=24)


def play(stream: Stream, folder: Path, *skills: str) -> Outcome:
    """Run a stream, and check what holds for every run with the search tools."""
    settings = {"CONTEXT_TRIM_TOKENS": str(THRESHOLD)}
    outcome = run(stream, "trim", skills, folder, settings=settings, system=2_000)
    assert outcome.refusals == ()
    assert outcome.fail_opens == 0
    assert outcome.trims >= 2
    assert outcome.totals.broken == outcome.trims
    assert outcome.totals.peak <= THRESHOLD + LARGEST
    return outcome


def test_every_value_that_left_the_prompt_is_found_again_the_newest_of_a_key_set_twice(tmp_path: Path) -> None:
    outcome = play(VALUES, tmp_path, "lm")
    assert outcome.score.reward == 1.0
    assert outcome.score.stale == 0
    assert outcome.asked >= 8


def test_lines_that_left_the_prompt_are_counted_exactly_or_the_agent_is_warned(tmp_path: Path) -> None:
    """Careful counts are right. A loose one also counts the task and its own question, and its answer shows that."""
    outcome = play(LOG, tmp_path, "anchored", "naive", "lm", "words", "by", "distinct")
    assert outcome.score.by_kind["lookup"] == 1.0
    for careful in ("anchored", "lm", "by"):
        assert outcome.counts[careful].right >= 1
        assert outcome.counts[careful] == Counts(right=outcome.counts[careful].right)
    for loose in ("naive", "words", "distinct"):
        assert outcome.counts[loose].warned >= 1
        assert outcome.counts[loose].silent == 0


@pytest.mark.parametrize("make", [keyvalue.generate, logs.generate])
def test_a_stream_is_the_same_for_the_same_seed(make) -> None:
    assert make(300, seed=1) == make(300, seed=1)
    assert make(300, seed=1) != make(300, seed=2)
    assert len(make(300, seed=1).questions) == 24


def test_the_golds_are_what_the_stream_says() -> None:
    said = "\n".join(operation.text for operation in LOG.operations[1:])
    for operation in LOG.operations:
        if operation.question is not None and operation.question.kind == "count":
            level, service = operation.text.split("How many [")[1].split("?")[0].split('] log lines are from service "')
            assert said.count(f" [{level}] {service.rstrip('"')} req=") == int(operation.question.gold)
    sets = [line for operation in VALUES.operations for line in operation.text.splitlines() if line.startswith("SET ")]
    for question in VALUES.questions:
        key = question.name.removeprefix("key=")
        values = [line.partition(" = ")[2] for line in sets if line.startswith(f"SET {key} ")]
        assert values[-1] == question.gold
        assert values[:-1][-1:] == ([question.stale] if question.stale else [])


GRADES = {
    answer("key=K1", "amber sand #00000001"): (1.0, 1.0),
    answer("key=K1", "amber sand #00000002"): (0.0, 1.0),
    answer("key=K2", "amber sand #00000001"): (0.0, 0.0),
    "The value is amber sand #00000001.": (0.0, 0.0),
    f"{answer('key=K1', 'nothing')}\nNo:\n{answer('key=K1', 'amber sand #00000001')}": (1.0, 1.0),
}


@pytest.mark.parametrize(("reply", "shares"), GRADES.items())
def test_only_an_exact_answer_block_counts(reply: str, shares: tuple[float, float]) -> None:
    question = Question("key=K1", "get", "amber sand #00000001")
    stream = Stream("one", (Operation("GET K1", question),), 2.0)
    score = grade(stream.questions, [reply])
    assert (score.reward, score.lenient) == shares
