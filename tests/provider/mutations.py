"""Change one value of a request into one of another type, as fuzzing does."""

import copy
import random
from collections.abc import Iterator
from typing import Any

from fixtures.provider.wire import Json

VALUES: tuple[Any, ...] = (
    *(None, 1, -1.5, True, "", "x", "\ud800"),
    *([], {}, [1], ["x"], [[]], {"a": 1}, [{}], [{"type": []}], [{"type": {}}]),
)


def places(value: object, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of each value inside another."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield (*place, key)
        yield from places(item, (*place, key))


def mutated(body: Json, seed: int) -> Json:
    """Return the body with one or two of its values replaced."""
    drawn = random.Random(seed)
    other = copy.deepcopy(body)
    for _ in range(drawn.choice((1, 1, 2))):
        *front, last = drawn.choice(list(places(other)) or [("model",)])
        inner: Any = other
        for key in front:
            inner = inner[key]
        inner[last] = drawn.choice(VALUES)
    return other
