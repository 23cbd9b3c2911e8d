"""The embedding model that runs in this process."""

import math
import struct

import pytest
from openmem_store.localmodel import LocalModel


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return LocalModel()


def cosine(one: bytes, other: bytes) -> float:
    pairs = zip(struct.iter_unpack("<f", one), struct.iter_unpack("<f", other), strict=True)
    return sum(a * b for (a,), (b,) in pairs)


def test_a_vector_has_384_numbers_and_length_one(model: LocalModel) -> None:
    (vector,) = model.embed(["the harbour closes at noon"], timeout=1)
    assert len(vector) == 4 * 384
    assert math.isclose(cosine(vector, vector), 1.0, abs_tol=1e-5)


def test_a_paraphrase_is_nearer_than_another_subject(model: LocalModel) -> None:
    """What vectors are for: the two share no word."""
    question, paraphrase, other = model.embed(
        ["when must boats leave?", "Ships depart before twelve o'clock.", "Bake the bread for an hour."], timeout=1
    )
    assert cosine(question, paraphrase) > cosine(question, other) + 0.2


def test_texts_of_any_length_together_give_what_each_gives_alone(model: LocalModel) -> None:
    texts = ["word " * count for count in (300, 1, 40, 7, 90, 2, 3, 4, 5, 6, 200)]
    together = model.embed(texts, timeout=1)
    alone = [model.embed([text], timeout=1)[0] for text in texts]
    assert min(map(cosine, alone, together)) > 0.999
    assert model.embed([], timeout=1) == []
