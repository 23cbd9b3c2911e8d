"""What an embedder is, and the stored form of a vector."""

import math
from pathlib import Path

import pytest
from openmem_store import embedding
from openmem_store.endpoint import Endpoint
from openmem_store.settings import Settings


def test_a_vector_is_little_endian_float32() -> None:
    assert embedding.packed([1.0, -2.0, 0.0]) == bytes.fromhex("0000803f 000000c0 00000000")
    assert embedding.dimensions(embedding.packed([1.0, -2.0, 0.0])) == 3


@pytest.mark.parametrize("values", [[], [math.nan], [1.0, math.inf], [1e39]])
def test_what_is_no_vector_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="a vector"):
        embedding.packed(values)


def test_any_name_but_local_is_a_model_behind_the_endpoint(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, embedding_model="nomic-embed-text")
    assert isinstance(embedding.connect(settings, "nomic-embed-text"), Endpoint)


def test_the_local_model_without_its_packages_says_how_to_get_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openmem_store.localmodel.PACKAGES", ("no_such_package", "json"))
    with pytest.raises(embedding.UnavailableError) as refused:
        embedding.connect(Settings(root=tmp_path), embedding.LOCAL)
    assert str(refused.value) == (
        "embedding_model = local needs no_such_package: install openmem-context[local-embeddings]"
    )
