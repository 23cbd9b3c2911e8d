"""The embedding of queries."""

import threading
from pathlib import Path

import httpx
import pytest
from openmem_store.embedding import UnavailableError
from openmem_store.reader import queries
from openmem_store.reader.queries import MOST_AT_ONCE, Queries
from openmem_store.settings import Settings

from tests.embeddings import served, vector
from tests.store.reader.embedded import EAST, Known, answering


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(root=tmp_path, embedding_max_chars=6)


def test_a_query_is_embedded_by_its_head_with_the_model_that_is_named(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Known({"harbou": EAST})
    answering(monkeypatch, m=known)
    assert Queries(settings).ask("m", "harbour").result(20) == vector(*EAST)


def test_an_endpoint_is_asked_as_the_settings_say(settings: Settings) -> None:
    import msgspec

    with served() as fake:
        given = msgspec.structs.replace(settings, embedding_url=fake.url, embedding_api_key="sk-neutral")
        found = Queries(given).ask("small", "a").result(20)
    assert len(found) == 32
    assert fake.requests[0].body == {"model": "small", "input": ["a"]}
    assert fake.requests[0].headers["authorization"] == "Bearer sk-neutral"


def test_a_failure_reaches_who_waits_and_the_next_query_is_asked_anew(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Known({"a": EAST})
    answering(monkeypatch, m=known)
    asked = Queries(settings)
    known.error = httpx.ConnectError("no")
    with pytest.raises(httpx.ConnectError):
        asked.ask("m", "a").result(20)
    known.error = None
    assert asked.ask("m", "a").result(20) == vector(*EAST)


def test_a_model_that_hangs_takes_no_more_than_a_few_threads(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = Known({"a": EAST})
    known.go = threading.Event()
    answering(monkeypatch, m=known)
    asked = Queries(settings)
    waiting = [asked.ask("m", "a") for _ in range(MOST_AT_ONCE)]
    with pytest.raises(TimeoutError):
        asked.ask("m", "a").result(20)
    known.go.set()
    assert [each.result(20) for each in waiting] == [vector(*EAST)] * MOST_AT_ONCE
    while True:  # the threads end just after their futures
        try:
            assert asked.ask("m", "a").result(20) == vector(*EAST)
        except TimeoutError:
            continue
        break


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            TimeoutError(),
            "the embedding model did not answer within 1 s; it may still be loading, so ask again",
        ),
        (UnavailableError("needs x: install y"), "needs x: install y"),
        (httpx.ConnectError("http://secret"), "the embedding model failed (ConnectError)"),
    ],
)
def test_what_is_said_of_a_failure_shows_nothing_of_the_request(error: Exception, said: str) -> None:
    assert queries.said(error) == said
