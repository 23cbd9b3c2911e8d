"""Own the kv-store task: keys are set in batches of 100, and some of them are asked for at the end."""

import random

from bench.contextbench.stream import QUESTIONS, READY, Operation, Question, Stream, block, tag, titled, words

BATCH = 100
VALUE_WORDS = 24
CHARACTERS_PER_TOKEN = 2.25

INSTRUCTION = f"""\
You keep a key-value store in this conversation. Operations arrive one at a time.
A set batch gives you many lines `SET <key> = <value>`: remember every value exactly, the tag behind # included.
A later line for a key replaces its value. A get asks for the value of one key: answer with an ANSWER block,
<<<ANSWER key=<key>>>> on one line, the whole value on the next, <<<ANSWER END>>> on the last.
End every reply with {READY}."""


def generate(records: int, *, seed: int, overwritten: float = 0.0, questions: int = QUESTIONS) -> Stream:
    """Return a stream that sets so many values.

    `overwritten`: share of the lines that set an earlier key again, one in twenty of them a key of
    the same batch; half of the questions are then about such keys.
    """
    source = random.Random(f"kv {records} {seed} {overwritten}")
    lines: list[tuple[str, str]] = []
    keys: list[str] = []
    stale: dict[str, str] = {}
    current: dict[str, str] = {}
    for number in range(records):
        if keys and source.random() < overwritten:
            start = len(keys) - 1 if source.random() < 0.05 else 0
            key = source.choice(keys[max(0, start - number % BATCH) :] if start else keys)
            stale[key] = current[key]
        else:
            key = f"K{len(keys):05}"
            keys.append(key)
        current[key] = f"{words(source, VALUE_WORDS)} #{tag(source)}"
        lines.append((key, current[key]))
    asked = _asked(source, keys, sorted(stale), questions)
    batches = [lines[start : start + BATCH] for start in range(0, records, BATCH)]
    left = len(batches) + len(asked)
    operations = [Operation(INSTRUCTION)]
    for number, batch in enumerate(batches):
        left -= 1
        body = block("SET", number, tag(source), (f"SET {key} = {value}" for key, value in batch))
        first = number * BATCH
        operations.append(Operation(titled(f"set batch (keys {first}-{first + len(batch) - 1})", left, body)))
    for key in asked:
        left -= 1
        body = f"GET {key}\n(Report the value you stored for {key} as an ANSWER block for that key.)"
        question = Question(f"key={key}", "get", current[key], stale.get(key))
        operations.append(Operation(titled(f"get {key}", left, body), question))
    name = f"kv{'-update' if overwritten else ''} R{records}"
    return Stream(name, tuple(operations), CHARACTERS_PER_TOKEN)


def _asked(source: random.Random, keys: list[str], stale: list[str], questions: int) -> list[str]:
    again = source.sample(stale, min(len(stale), questions // 2))
    rest = [key for key in keys if key not in set(again)]
    asked = again + source.sample(rest, min(len(rest), questions - len(again)))
    source.shuffle(asked)
    return asked
