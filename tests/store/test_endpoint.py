"""The client of an embeddings endpoint, against a fake one on loopback."""

import json
import threading

import httpx
import pytest
from openmem_store.endpoint import Endpoint

from tests import embeddings
from tests.embeddings import Request, answer, served, vector

KEY = "sk-neutral-0000"


def test_one_request_in_the_form_of_openai() -> None:
    with served(lambda _: (200, answer([[1.0, 0.0], [0.0, 1.0]]))) as fake:
        found = Endpoint(fake.url, "small", key=KEY).embed(["one", "two"], timeout=5)
    assert found == [vector(1, 0), vector(0, 1)]
    (request,) = fake.requests
    assert (request.path, request.body) == ("/v1/embeddings", {"model": "small", "input": ["one", "two"]})
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.headers["content-type"] == "application/json"


def test_without_a_key_none_is_sent_and_a_slash_at_the_end_of_the_url_does_no_harm() -> None:
    with served() as fake:
        Endpoint(fake.url + "/", "small").embed(["one"], timeout=5)
    (request,) = fake.requests
    assert request.path == "/v1/embeddings"
    assert "authorization" not in request.headers


def test_vectors_are_in_the_order_of_their_texts_whatever_the_order_of_the_answer() -> None:
    data = [{"index": 1, "embedding": [2.0]}, {"index": 0, "embedding": [1.0]}]
    with served(lambda _: (200, json.dumps({"data": data}).encode())) as fake:
        assert Endpoint(fake.url, "small").embed(["a", "b"], timeout=5) == [vector(1), vector(2)]


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"<html>", id="no JSON"),
        pytest.param(b'{"error": "busy"}', id="no data"),
        pytest.param(answer([[1.0]]), id="one vector too few"),
        pytest.param(answer([[1.0], [2.0], [3.0]]), id="one too many"),
        pytest.param(answer([[1.0], [1.0, 2.0]]), id="two lengths"),
        pytest.param(answer([[], []]), id="empty"),
        pytest.param(b'{"data":[{"index":0,"embedding":[1e39]},{"index":1,"embedding":[1]}]}', id="no float32"),
        pytest.param(b'{"data":[{"index":0,"embedding":[1]},{"index":0,"embedding":[1]}]}', id="one index twice"),
    ],
)
def test_an_answer_that_is_none_is_an_error(body: bytes) -> None:
    with served(lambda _: (200, body)) as fake, pytest.raises(ValueError):  # noqa: PT011, the type is what is logged
        Endpoint(fake.url, "small").embed(["secret text", "b"], timeout=5)


@pytest.mark.parametrize("status", [400, 401, 429, 500, 302])
def test_a_refusal_is_an_error_that_shows_neither_text_nor_key(status: int) -> None:
    with served(lambda _: (status, b"refused: secret text")) as fake, pytest.raises(httpx.HTTPStatusError) as refused:
        Endpoint(fake.url, "small", key=KEY).embed(["secret text"], timeout=5)
    assert "secret" not in str(refused.value)
    assert KEY not in str(refused.value)


def test_an_answer_that_does_not_come_ends_with_the_timeout() -> None:
    go = threading.Event()

    def held(request: Request) -> tuple[int, bytes]:
        go.wait()
        return embeddings.vectors(request)

    with served(held) as fake:
        try:
            with pytest.raises(httpx.ReadTimeout):
                Endpoint(fake.url, "small").embed(["a"], timeout=0.05)
        finally:
            go.set()


def test_a_port_where_nothing_listens_is_an_error() -> None:
    with served() as fake:
        url = fake.url
    with pytest.raises(httpx.ConnectError):
        Endpoint(url, "small").embed(["a"], timeout=5)


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's search server is started with our own proxy in its environment."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with served() as fake:
        assert len(Endpoint(fake.url, "small").embed(["a"], timeout=5)) == 1
