"""Hold the hooks to touching only what is ours, and to passing every byte of an answer as it came."""

import asyncio
import gzip
import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import apsw
import brotli
import httpx
import pytest
from mitmproxy import http
from mitmproxy import io as flow_files
from mitmproxy.connection import ConnectionState
from mitmproxy.proxy import mode_specs, server_hooks
from mitmproxy.test import taddons, tflow, tutils
from openmem_addon import proxy, resend
from openmem_addon.core import texts
from openmem_addon.core.anthropic import VALVE_BETA
from openmem_addon.core.decoding import zstd
from openmem_addon.core.usage import Tap
from openmem_addon.proxy import OpenMem
from openmem_addon.resend import Answer
from openmem_store.layout import Layout
from openmem_store.version import code_hash

from fixtures.provider.wire import Json
from tests import embeddings
from tests.conversations import assistant, body, chat, encode, thinking, user

STREAMS = Path(__file__).parents[2] / "fixtures" / "sse"
SID = "0b7c2d9e-demo"
ROLES = ("user", "assistant")
ASKED = encode(body(*chat(1), user("more")))


class Proxy:
    """The addon inside mitmproxy's own test context, on a store of its own."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.addon = OpenMem()

    def flow(self, content: bytes = ASKED, *, path: str = "/v1/messages?beta=true", **more: Any) -> http.HTTPFlow:
        """Return the flow of a request; `headers` are added to those of the agent."""
        fields = {"host": "api.anthropic.com", "port": 443, "scheme": b"https", "method": b"POST", **more}
        headers = {"content-type": "application/json", "x-claude-code-session-id": SID, **fields.pop("headers", {})}
        named = http.Headers([(name.encode(), value.encode()) for name, value in headers.items()])
        request = tutils.treq(path=path.encode(), headers=named, content=content, **fields)
        request.headers["content-length"] = str(len(content))
        return tflow.tflow(req=request)

    async def request(self, flow: http.HTTPFlow) -> http.HTTPFlow:
        self.addon.requestheaders(flow)
        await self.addon.request(flow)
        return flow

    async def respond(
        self, flow: http.HTTPFlow, chunks: list[bytes], *, status: int = 200, ends: bool = True, **headers: str
    ) -> bytes:
        """Stream an answer; return what the client gets. `ends` False: the client hangs up."""
        named = {
            name.replace("_", "-"): value for name, value in {"content_type": "text/event-stream", **headers}.items()
        }
        flow.response = http.Response.make(status, b"", named)
        self.addon.responseheaders(flow)
        stream = flow.response.stream
        passed = b"".join(stream(chunk) if callable(stream) else chunk for chunk in chunks)  # type: ignore[misc]
        if not stream:
            flow.response.raw_content = b"".join(chunks)
        if ends:
            await self.addon.response(flow)
        else:
            await self.addon.error(flow)
        return passed

    async def settle(self) -> None:
        assert self.addon._queue is not None
        await asyncio.wrap_future(self.addon._pools[1].submit(lambda: None))
        await asyncio.wrap_future(self.addon._queue.call(SID, lambda _: None))

    async def select(self, statement: str) -> list[tuple[Any, ...]]:
        await self.settle()
        path = self.layout.database(SID)
        if not path.exists():
            return []
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return list(connection.execute(statement))
        finally:
            connection.close()


@pytest.fixture
async def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Proxy]:
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(tmp_path))
    (tmp_path / "config.toml").touch()
    monkeypatch.setenv("OPENMEM_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("CONTEXT_PROVIDER_HOSTS", "gateway.example:8443")
    made = Proxy(Layout(tmp_path / "context"))
    with taddons.context(made.addon):
        made.addon.running()
        yield made
        made.addon.done()


def changed(flow: http.HTTPFlow) -> bool:
    return texts.STANDING_INSTRUCTION.encode() in (flow.request.get_content() or b"")


# --- what is ours ------------------------------------------------------------------------------------------

OURS: dict[str, dict[str, Any]] = {
    "the provider": {},
    "without a query": {"path": "/v1/messages"},
    "a host of the settings": {"host": "gateway.example", "port": 8443, "path": "/anthropic/v1/messages"},
    "a count": {"path": "/v1/messages/count_tokens?beta=true"},
}
OTHERS: dict[str, dict[str, Any]] = {
    "another host": {"host": "example.com"},
    "a host below the provider": {"host": "api.anthropic.com.example"},
    "another port": {"port": 8443},
    "another path": {"path": "/v1/models"},
    "a batch": {"path": "/v1/messages/batches"},
    "another method": {"method": b"PUT"},
    "a websocket": {"headers": {"upgrade": "websocket"}},
}


@pytest.mark.parametrize("fields", OURS.values(), ids=OURS)
async def test_a_request_to_a_provider_is_ours(ours: Proxy, fields: dict[str, Any]) -> None:
    flow = await ours.request(ours.flow(**fields))
    assert changed(flow) == ("count_tokens" not in flow.request.path)
    assert json.loads(ours.addon._health().content)["requests"] == 1


@pytest.mark.parametrize("fields", OTHERS.values(), ids=OTHERS)
async def test_any_other_request_passes_untouched_and_leaves_no_trace(ours: Proxy, fields: dict[str, Any]) -> None:
    flow = ours.flow(**fields)
    before = flow.get_state()
    await ours.request(flow)
    assert flow.get_state() == before
    assert await ours.respond(flow, [b"data: 1\n\n"]) == b"data: 1\n\n"
    assert list(ours.layout.sessions.iterdir()) == []
    assert json.loads(ours.addon._health().content)["requests"] == 0


async def test_a_reverse_upstream_is_a_provider_whatever_its_name(ours: Proxy) -> None:
    flow = ours.flow(host="127.0.0.1", port=9000)
    flow.client_conn.proxy_mode = mode_specs.ProxyMode.parse("reverse:http://127.0.0.1:9000")
    assert changed(await ours.request(flow))


async def test_before_the_start_every_request_passes(ours: Proxy) -> None:
    waiting = OpenMem()
    waiting._hosts = ours.addon._hosts
    flow = ours.flow()
    await waiting.request(flow)
    assert flow.request.raw_content == ASKED


@pytest.mark.parametrize(
    ("fields", "streams"),
    [
        ({"path": "/upload", "headers": {"content-length": str(5 << 20)}}, True),
        ({"path": "/upload", "headers": {"transfer-encoding": "chunked"}}, True),
        ({"path": "/upload"}, False),
        ({"headers": {"transfer-encoding": "chunked"}}, False),
    ],
)
async def test_only_large_uploads_that_are_not_ours_stream(ours: Proxy, fields: dict[str, Any], streams: bool) -> None:
    flow = ours.flow(**fields)
    flow.request.headers.update(fields.get("headers", {}))
    ours.addon.requestheaders(flow)
    assert bool(flow.request.stream) == streams


# --- request bodies ----------------------------------------------------------------------------------------

DECODERS = {"gzip": gzip.decompress, "zstd": zstd.decompress, "br": brotli.decompress}
ENCODERS = {"gzip": gzip.compress, "zstd": zstd.compress, "br": brotli.compress}


@pytest.mark.parametrize("encoding", ENCODERS)
async def test_an_encoded_body_is_encoded_again(ours: Proxy, encoding: str) -> None:
    flow = await ours.request(ours.flow(ENCODERS[encoding](ASKED), headers={"content-encoding": encoding}))
    assert changed(flow)
    assert flow.request.headers["content-encoding"] == encoding
    raw = flow.request.raw_content
    assert raw is not None
    assert flow.request.headers["content-length"] == str(len(raw))
    assert DECODERS[encoding](raw) == flow.request.get_content()


@pytest.mark.parametrize(
    ("content", "encoding"),
    [(ASKED, "gzip"), (ASKED, "zstd"), (ASKED, "snappy"), (gzip.compress(ASKED)[:99], "gzip"), (b"\x1f\x8b", "gzip")],
)
async def test_a_body_that_is_not_as_its_header_says_passes_untouched(
    ours: Proxy, content: bytes, encoding: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = ours.flow(content, headers={"content-encoding": encoding})
    before = flow.get_state()
    await ours.request(flow)
    assert flow.get_state() == before
    assert len(capsys.readouterr().err.splitlines()) <= 1
    await ours.respond(flow, [b"x"], status=400)


@pytest.mark.parametrize("content", [b"", b"not json", b'{"messages":1}', b"\xff\xfe", b"[" * 200_000])
async def test_a_body_that_is_no_request_passes_untouched_with_one_line(
    ours: Proxy, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = ours.flow(content)
    before = flow.get_state()
    await ours.request(flow)
    assert flow.get_state() == before
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("openmem-context: fail-open NotSplicable at ")
    assert json.loads(ours.addon._health().content)["fail_opens"] == 1


async def test_a_request_that_needs_no_change_is_not_assigned(ours: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    content = b'{ "model":"m",\n "max_tokens":1E2, "messages":[{"role":"user","content":"go"}]}'
    flow = ours.flow(content)
    before = flow.get_state()
    await ours.request(flow)
    assert flow.get_state() == before


async def test_a_body_too_large_to_hold_passes(ours: Proxy) -> None:
    flow = ours.flow()
    flow.request.raw_content = None
    await ours.addon.request(flow)
    assert flow.request.raw_content is None


# --- answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd", "br"])
@pytest.mark.parametrize("ends", [True, False], ids=["ended", "hung up"])
async def test_an_answer_passes_byte_by_byte_and_its_usage_is_booked(ours: Proxy, encoding: str, ends: bool) -> None:
    answer = ENCODERS.get(encoding, bytes)((STREAMS / "cumulative.sse").read_bytes())
    flow = await ours.request(ours.flow())
    chunks = [answer[at : at + 7] for at in range(0, len(answer), 7)]
    assert await ours.respond(flow, chunks, ends=ends, content_encoding=encoding) == answer
    columns = "trimmed, input_tokens, cache_read_tokens, cache_creation_tokens, output_tokens, version"
    assert await ours.select(f"SELECT {columns} FROM events") == [(0, 31, 2048, 96, 27, f"proxy:{code_hash()}")]
    assert ours.addon._flights == {}


async def test_an_answer_that_is_booked_is_booked_once(ours: Proxy) -> None:
    flow = await ours.request(ours.flow())
    await ours.respond(flow, [(STREAMS / "cumulative.sse").read_bytes()])
    await ours.addon.error(flow)
    await ours.addon.response(flow)
    assert len(await ours.select("SELECT id FROM events")) == 1


async def test_a_stream_that_breaks_off_books_what_it_reported(ours: Proxy) -> None:
    flow = await ours.request(ours.flow())
    await ours.respond(flow, [(STREAMS / "error_mid.sse").read_bytes()], ends=False)
    assert await ours.select("SELECT input_tokens, output_tokens FROM events") == [(31, 1)]


async def test_a_whole_answer_is_read_too(ours: Proxy) -> None:
    flow = await ours.request(ours.flow())
    whole = json.dumps({"type": "message", "usage": {"input_tokens": 5, "output_tokens": 2}}).encode()
    await ours.respond(flow, [whole], content_type="application/json")
    columns = "input_tokens, cache_read_tokens, output_tokens"
    assert await ours.select(f"SELECT {columns} FROM events") == [(5, None, 2)]


@pytest.mark.parametrize("status", [401, 404, 429, 500, 502, 529, 400])
async def test_a_refusal_passes_and_books_nothing(ours: Proxy, status: int) -> None:
    flow = await ours.request(ours.flow())
    assert await ours.respond(flow, [b"<html>", b"no</html>"], status=status, content_type="text/html") == (
        b"<html>no</html>"
    )
    assert await ours.select("SELECT id FROM events") == []
    assert ours.addon._flights == {}
    state = json.loads(ours.layout.trim(SID).read_bytes())
    assert all(thread.get("sent") is None for thread in state["threads"].values())


# --- refusals of what we changed -----------------------------------------------------------------------------

SCRIPT = {"user-agent": "a-script/1"}
CLAUDE = {"user-agent": "claude-cli/2.1.332 (external, cli)"}
BOUND = json.dumps(
    {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "message": "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a "
            "different conversation.",
        },
    }
).encode()
VALVED = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}


def thought(turns: int) -> bytes:
    """Return a session of so many answers with signed reasoning, and a question."""
    messages = [user("go")]
    for number in range(turns):
        messages += [assistant(thinking(f"thought {number}"), f"answer {number}"), user(f"go {number}")]
    return encode(body(*messages, thinking={"type": "adaptive"}))


class Upstream:
    """Stands for the provider as the proxy asks it itself: gives its answers in order, then none."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, dict[str, str], Json]] = []

    async def resend(self, url: str, headers: dict[str, str], body: bytes, upstream: object) -> Answer:
        self.asked.append((url, headers, json.loads(body)))
        if not self._answers:
            raise httpx.ConnectError("gone")
        return self._answers.pop(0)


@pytest.fixture
def upstream(monkeypatch: pytest.MonkeyPatch) -> Upstream:
    made = Upstream()
    monkeypatch.setattr(proxy, "resend", made.resend)
    return made


def streamed() -> Answer:
    return Answer(200, ((b"content-type", b"text/event-stream"),), (STREAMS / "cumulative.sse").read_bytes())


def whole() -> Answer:
    usage = {"input_tokens": 31, "cache_read_input_tokens": 2048, "output_tokens": 27}
    content = json.dumps({"type": "message", "usage": usage}).encode()
    return Answer(200, ((b"content-type", b"application/json"),), content)


def refusal(status: int = 400, content: bytes = BOUND) -> Answer:
    return Answer(status, ((b"content-type", b"application/json"), (b"request-id", b"second")), content)


async def refused(ours: Proxy, headers: dict[str, str], content: bytes = BOUND, **more: str) -> http.HTTPFlow:
    """Bring a thread to a refusal and return its flow, as the client gets it."""
    for turns in range(2):
        flow = await ours.request(ours.flow(thought(turns), headers=headers))
        await ours.respond(flow, [(STREAMS / "cumulative.sse").read_bytes()])
    flow = await ours.request(ours.flow(thought(2), headers=headers))
    await ours.respond(flow, [content], status=400, content_type="application/json", request_id="first", **more)
    return flow


async def test_a_client_that_asks_again_is_told_to_and_streams_its_own_answer(ours: Proxy, upstream: Upstream) -> None:
    flow = await refused(ours, CLAUDE)
    assert flow.response is not None
    assert flow.response.status_code == 503
    assert flow.response.headers["x-should-retry"] == "true"
    assert upstream.asked == []
    again = await ours.request(ours.flow(thought(2), headers=CLAUDE))
    assert json.loads(again.request.get_content() or b"")["thinking"] == VALVED
    assert again.request.headers["anthropic-beta"] == VALVE_BETA
    passed = await ours.respond(again, [b"data: 1\n\n"])
    assert passed == b"data: 1\n\n"
    assert ours.addon._flights == {}


@pytest.mark.parametrize("encoding", ["", "gzip", "zstd", "br"])
@pytest.mark.parametrize("answer", [streamed(), whole()], ids=["streamed", "whole"])
async def test_any_other_client_gets_the_answer_of_the_cured_request(
    ours: Proxy, upstream: Upstream, encoding: str, answer: Answer
) -> None:
    """The answer is whole and booked once, as if the client's own request had got it."""
    upstream._answers = [answer]
    flow = await refused(ours, SCRIPT, ENCODERS.get(encoding, bytes)(BOUND), content_encoding=encoding)
    assert flow.response is not None
    assert flow.response.status_code == 200
    assert flow.response.content == answer.body
    assert flow.response.headers["content-length"] == str(len(answer.body))
    assert flow.response.headers["content-type"].encode() == answer.headers[0][1]
    ((url, headers, asked),) = upstream.asked
    assert url == "https://api.anthropic.com/v1/messages?beta=true"
    assert (headers["x-claude-code-session-id"], headers["anthropic-beta"]) == (SID, VALVE_BETA)
    assert asked["thinking"] == VALVED
    assert await ours.select("SELECT input_tokens FROM events WHERE kind = 'usage'") == [(31,)] * 3
    assert ours.addon._flights == {}
    (thread,) = json.loads(ours.layout.trim(SID).read_bytes())["threads"].values()
    assert thread["sent"]["items"] == 5
    assert "tried" not in thread


async def test_a_request_is_cured_as_often_as_there_is_a_cure(ours: Proxy, upstream: Upstream) -> None:
    upstream._answers = [refusal(), streamed()]
    flow = await refused(ours, {**SCRIPT, "anthropic-beta": "own"})
    assert flow.response is not None
    assert flow.response.status_code == 200
    (_, valved, first), (_, bare, second) = upstream.asked
    assert first["thinking"] == VALVED
    assert second["thinking"] == {"type": "adaptive"}
    assert (valved["anthropic-beta"], bare["anthropic-beta"]) == (f"own,{VALVE_BETA}", "own")
    assert await ours.select("SELECT location FROM events WHERE kind = 'heal'") == [("valve",), ("strip",)]


FRUITLESS: dict[str, tuple[Answer, ...]] = {
    "no cure is left": (refusal(), refusal()),
    "it is refused for something else": (refusal(400, b'{"error":{"message":"model: none"}}'),),
    "the provider is gone": (),
}


@pytest.mark.parametrize("answers", FRUITLESS.values(), ids=FRUITLESS)
@pytest.mark.parametrize("encoding", ["", "gzip"])
async def test_where_no_cure_helps_the_first_refusal_passes_byte_for_byte(
    ours: Proxy, upstream: Upstream, answers: tuple[Answer, ...], encoding: str
) -> None:
    upstream._answers = list(answers)
    content = ENCODERS.get(encoding, bytes)(BOUND)
    flow = await refused(ours, SCRIPT, content, content_encoding=encoding)
    assert flow.response is not None
    assert (flow.response.status_code, flow.response.raw_content) == (400, content)
    assert flow.response.headers["request-id"] == "first"
    assert await ours.select("SELECT id FROM events WHERE kind = 'usage'") == [(1,), (2,)]
    assert ours.addon._flights == {}
    assert all(session.flights == 0 for session in ours.addon._sessions._sessions.values())


@pytest.mark.parametrize("status", [401, 429, 500, 529])
async def test_what_a_cured_request_meets_besides_is_the_clients_to_see(
    ours: Proxy, upstream: Upstream, status: int
) -> None:
    upstream._answers = [refusal(status, b"{}")]
    flow = await refused(ours, SCRIPT)
    assert flow.response is not None
    assert (flow.response.status_code, flow.response.content) == (status, b"{}")
    assert flow.response.headers["request-id"] == "second"
    await ours.settle()
    (thread,) = json.loads(ours.layout.trim(SID).read_bytes())["threads"].values()
    assert thread["sent"]["items"] == 3


async def test_a_refusal_that_is_not_ours_passes_byte_for_byte(ours: Proxy, upstream: Upstream) -> None:
    content = b'{"error": {"message": "model: none"}}'
    flow = await refused(ours, SCRIPT, content)
    assert flow.response is not None
    assert (flow.response.status_code, flow.response.raw_content) == (400, content)
    assert upstream.asked == []


LONG_STREAM = (
    b'event: error\ndata: {"type":"error","error":{"type":"invalid_request_error",'
    b'"message":"prompt is too long: 213462 tokens > 200000 maximum"}}\n\n'
)
LONG_ANSWER = b'{"error":{"code":"context_length_exceeded","message":"Your input exceeds the context window"}}'


@pytest.mark.parametrize(
    ("answer", "kind"), [(LONG_STREAM, "text/event-stream"), (LONG_ANSWER, "application/json")], ids=["stream", "whole"]
)
@pytest.mark.parametrize("ends", [True, False], ids=["ended", "hung up"])
async def test_a_prompt_that_is_too_long_behind_a_status_of_200_is_trimmed_with_the_next_request(
    ours: Proxy, answer: bytes, kind: str, ends: bool
) -> None:
    """The client has seen it by then: nothing can be asked again, and nothing of the answer is booked."""
    asked = encode(body(*chat(9, size=2000), user("more")))
    flow = await ours.request(ours.flow(asked))
    assert await ours.respond(flow, [answer], ends=ends, content_type=kind) == answer
    await ours.settle()
    assert [thread.get("sent") for thread in json.loads(ours.layout.trim(SID).read_bytes())["threads"].values()] == [
        None
    ]
    assert await ours.select("SELECT kind, location, error FROM events") == [("heal", "trim", "long")]
    again = await ours.request(ours.flow(asked))
    assert len(again.request.get_content() or b"") < len(asked) / 4
    assert ours.addon._flights.keys() == {again.id}


async def test_a_failed_response_that_was_too_long_is_trimmed_with_the_next_request_and_not_continued(
    ours: Proxy,
) -> None:
    """As Codex's server says it."""
    said = {"code": "context_length_exceeded", "message": "Your input exceeds the context window of this model."}
    failed = {"type": "response.failed", "response": {"id": "resp_1", "error": said, "usage": None}}
    items = [{"role": role, "content": f"{role} {number} " + "x" * 2000} for number in range(9) for role in ROLES]
    tools = [{"type": "function", "name": "smart_compact_search", "parameters": {}}]
    asked = encode({"model": "m-1", "input": [*items, {"role": "user", "content": "more"}], "tools": tools})
    fields: dict[str, Any] = {"host": "api.openai.com", "path": "/v1/responses"}
    flow = await ours.request(ours.flow(asked, **fields))
    await ours.respond(flow, [b"event: response.failed\ndata: " + encode(failed) + b"\n\n"])
    assert await ours.select("SELECT kind, location, error FROM events") == [("heal", "trim", "long")]
    assert json.loads(ours.layout.trim(SID).read_bytes())["tails"] == {}
    again = await ours.request(ours.flow(asked, **fields))
    assert len(again.request.get_content() or b"") < len(asked) / 4


async def test_an_error_in_the_middle_of_an_answer_is_booked_with_what_it_reported(ours: Proxy) -> None:
    flow = await ours.request(ours.flow(encode(body(*chat(9, size=2000), user("more")))))
    begun = (STREAMS / "cumulative.sse").read_bytes().split(b"\n\n")[0] + b"\n\n"
    await ours.respond(flow, [begun, LONG_STREAM])
    assert await ours.select("SELECT kind FROM events ORDER BY id") == [("heal",), ("usage",)]


async def test_a_provider_is_asked_again_as_mitmproxy_was_told_to_reach_it(ours: Proxy) -> None:
    flow = ours.flow()
    assert proxy._upstream(flow) == resend.Upstream()
    with taddons.context() as context:
        context.configure(ours.addon, ssl_insecure=True, ssl_verify_upstream_trusted_ca="roots.pem")
        flow.client_conn.proxy_mode = mode_specs.ProxyMode.parse("upstream:http://proxy.example:3128")
        assert proxy._upstream(flow) == resend.Upstream(
            roots="roots.pem", verified=False, through="http://proxy.example:3128"
        )


def connecting(host: str, *, mode: str = "regular") -> server_hooks.ServerConnectionHookData:
    client, server = tflow.tclient_conn(), tflow.tserver_conn()
    client.proxy_mode = mode_specs.ProxyMode.parse(mode)
    server.address, server.error = (host, 443), "name not known"
    return server_hooks.ServerConnectionHookData(server, client)


async def test_a_provider_that_cannot_be_reached_is_named_once_until_it_can(
    ours: Proxy, capsys: pytest.CaptureFixture[str]
) -> None:
    """The agent is told 502, and takes that for the provider's own word."""
    provider = connecting("api.anthropic.com")
    line = "openmem-context: api.anthropic.com:443 cannot be reached: name not known\n"
    for _ in range(3):
        ours.addon.server_connect_error(provider)
    assert capsys.readouterr().err == line
    ours.addon.server_connected(provider)
    ours.addon.server_connect_error(provider)
    assert capsys.readouterr().err == line
    ours.addon.server_connect_error(connecting("127.0.0.1", mode="reverse:http://127.0.0.1:9000"))
    assert capsys.readouterr().err == line.replace("api.anthropic.com", "127.0.0.1")
    ours.addon.server_connect_error(connecting("elsewhere.example"))
    assert capsys.readouterr().err == ""


async def test_a_connection_that_never_answers_books_nothing(ours: Proxy) -> None:
    flow = await ours.request(ours.flow())
    await ours.addon.error(flow)
    assert await ours.select("SELECT id FROM events") == []
    assert ours.addon._flights == {}


async def test_an_upgraded_connection_is_left_alone(ours: Proxy) -> None:
    flow = await ours.request(ours.flow())
    flow.response = http.Response.make(101)
    ours.addon.responseheaders(flow)
    assert not flow.response.stream


UPGRADES: list[dict[str, Any]] = [
    {"host": "api.openai.com", "path": "/v1/responses"},
    {"host": "chatgpt.com", "path": "/backend-api/codex/responses"},
    {"host": "eu.chatgpt.com", "path": "/backend-api/codex/responses?region=eu"},
    {"host": "gateway.example", "port": 8443, "path": "/team/v1/responses/"},
]


def upgrade(ours: Proxy, **fields: Any) -> http.HTTPFlow:
    """Return the flow that opens a WebSocket."""
    return ours.flow(b"", **{"method": b"GET", "headers": {"connection": "Upgrade", "upgrade": "websocket"}, **fields})


@pytest.mark.parametrize("fields", UPGRADES)
async def test_a_websocket_is_refused_so_that_the_client_sends_its_history(
    ours: Proxy, fields: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Codex then goes on over HTTP at once; with any other status it tries again for seconds."""
    flow = await ours.request(upgrade(ours, **fields))
    assert flow.response is not None
    assert (flow.response.status_code, flow.response.content) == (426, b"")
    assert capsys.readouterr().err == ""


OTHER_UPGRADES: list[dict[str, Any]] = [
    {"host": "docs.example", "path": "/v1/responses"},
    {"host": "api.openai.com", "path": "/v1/realtime"},
    {"host": "api.openai.com", "path": "/v1/responses", "headers": {"connection": "Upgrade", "upgrade": "h2c"}},
    {"host": "api.openai.com", "path": "/v1/responses", "headers": {}},
]


@pytest.mark.parametrize("fields", OTHER_UPGRADES)
async def test_no_other_upgrade_is_refused(ours: Proxy, fields: dict[str, Any]) -> None:
    flow = await ours.request(upgrade(ours, **fields))
    assert flow.response is None


async def test_a_websocket_that_may_pass_is_said_once_to_be_out_of_reach(
    ours: Proxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CONTEXT_CODEX_WEBSOCKET", "pass")
    other = OpenMem()
    other.running()
    for _ in range(2):
        flow = upgrade(ours, **UPGRADES[0])
        await other.request(flow)
        assert flow.response is None
    other.done()
    assert capsys.readouterr().err == (
        "openmem-context: a WebSocket passes: its session is not stored and cannot be trimmed\n"
    )


async def test_the_messages_of_a_websocket_do_not_gather(ours: Proxy) -> None:
    """A day of them would fill the memory."""
    flow = tflow.twebsocketflow()
    assert flow.websocket is not None
    several = len(flow.websocket.messages)
    ours.addon.websocket_message(flow)
    assert len(flow.websocket.messages) == several > 1
    flow.request.host, flow.request.port, flow.request.path = "api.openai.com", 443, "/v1/responses"
    last = flow.websocket.messages[-1]
    ours.addon.websocket_message(flow)
    assert flow.websocket.messages == [last]


async def test_a_tap_that_fails_loses_no_chunk(
    ours: Proxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flow = await ours.request(ours.flow())

    def fails(*_: object) -> None:
        raise RuntimeError("the user's words")

    monkeypatch.setattr(Tap, "feed", fails)
    assert await ours.respond(flow, [b"one", b"two"]) == b"onetwo"
    err = capsys.readouterr().err
    assert "fail-open RuntimeError at " in err
    assert "the user's words" not in err


# --- beside the way ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "path"), [("openmem.local", "/health"), ("openmem.local", "/health?x=1"), ("127.0.0.1", "/openmem/health")]
)
async def test_the_proxy_says_how_it_is(ours: Proxy, host: str, path: str) -> None:
    flow = ours.flow(b"", host=host, path=path, method=b"GET", scheme=b"http", port=80)
    await ours.request(flow)
    assert flow.response is not None
    answer = json.loads(flow.response.content)
    assert answer["service"] == "openmem-context"
    assert answer["version"] == code_hash()
    assert (answer["requests"], answer["fail_opens"]) == (0, 0)
    assert isinstance(answer["pid"], int)


async def test_a_flow_of_ours_can_be_written_to_disk(ours: Proxy) -> None:
    """Live objects in a flow's metadata would fail whoever saves it."""
    flow = await ours.request(ours.flow())
    assert flow.metadata == {}
    flow.client_conn.state = flow.server_conn.state = ConnectionState.CLOSED
    flow_files.FlowWriter(io.BytesIO()).add(flow)
    await ours.respond(flow, [b"x"])
    assert flow.metadata == {}


async def test_no_key_and_no_word_of_a_conversation_is_logged(
    ours: Proxy, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ValueError("question 0 and sk-ant-secret")

    monkeypatch.setattr("openmem_addon.core.rewrite.decide", fails)
    flow = await ours.request(ours.flow(headers={"x-api-key": "sk-ant-secret"}))
    assert flow.request.raw_content == ASKED
    err = capsys.readouterr().err
    assert err.count("fail-open ValueError") == 2
    assert "question" not in err
    assert "sk-ant" not in err


async def test_a_request_whose_client_is_gone_is_not_kept(ours: Proxy) -> None:
    for _ in range(3):
        flow = await ours.request(ours.flow())
        await ours.addon.error(flow)
    assert ours.addon._flights == {}


@pytest.mark.parametrize(
    ("stated", "made"),
    [("", "new"), ("a", "a,new"), ("a, b ,", "a,b,new"), ("a,new,b", "a,new,b")],
)
def test_a_beta_value_is_added_once(stated: str, made: str) -> None:
    assert proxy._with_beta(stated, "new") == made


async def test_a_session_in_two_requests_extends_its_prompt(ours: Proxy) -> None:
    def forwarded(flow: http.HTTPFlow) -> Json:
        return json.loads(flow.request.get_content() or b"")

    first = forwarded(await ours.request(ours.flow()))
    grown = encode(body(*chat(1), user("more"), assistant("so"), user("again")))
    second = forwarded(await ours.request(ours.flow(grown)))
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["system"] == first["system"]
    await ours.settle()


async def test_the_header_that_bypasses_goes_no_further(ours: Proxy) -> None:
    flow = await ours.request(ours.flow(headers={"x-openmem-bypass": "1"}))
    assert "x-openmem-bypass" not in flow.request.headers
    assert flow.request.content == ASKED


# --- vectors -------------------------------------------------------------------------------------------------


async def test_stored_rows_are_embedded_behind_the_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = asyncio.Event()
    loop = asyncio.get_running_loop()

    def reply(request: embeddings.Request) -> tuple[int, bytes]:
        loop.call_soon_threadsafe(asked.set)
        return embeddings.vectors(request)

    with embeddings.served(reply) as endpoint:
        monkeypatch.setenv("OPENMEM_STATE_DIR", str(tmp_path))
        monkeypatch.setenv("CONTEXT_EMBEDDING_MODEL", "m")
        monkeypatch.setenv("CONTEXT_EMBEDDING_URL", endpoint.url)
        made = Proxy(Layout(tmp_path / "context"))
        with taddons.context(made.addon):
            made.addon.running()
            await made.request(made.flow())
            async with asyncio.timeout(20):
                await asked.wait()
            made.addon.done()
    (request, *_) = endpoint.requests
    assert request.body["model"] == "m"
    assert request.body["input"][0] == "more", "the newest row first"


async def test_a_local_model_that_is_not_installed_is_said_and_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENMEM_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("CONTEXT_EMBEDDING_MODEL", "local")
    monkeypatch.setattr("openmem_store.localmodel.PACKAGES", ("no_such_package",))
    made = Proxy(Layout(tmp_path / "context"))
    with taddons.context(made.addon):
        made.addon.running()
        await made.request(made.flow())
        made.addon.done()
    assert capsys.readouterr().err == (
        "openmem-context: no vectors: embedding_model = local needs no_such_package: "
        "install openmem-context[local-embeddings]\n"
    )


async def test_without_a_model_nothing_embeds(ours: Proxy) -> None:
    await ours.request(ours.flow())
    assert await ours.select("SELECT count(*) FROM vectors") == [(0,)]
    assert ours.addon._embedder is None
