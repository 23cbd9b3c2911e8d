"""Whose rule: mitmweb lets a person inspect what was rewritten, and does not grow with the session."""

import gzip
from collections.abc import Iterator

import pytest
from mitmproxy import contentviews, ctx, http
from mitmproxy.addons.view import View
from mitmproxy.contentviews import Metadata
from mitmproxy.test import taddons, tflow, tutils
from openmem_addon import contentview
from openmem_addon.contentview import Inspection, Originals

from tests.conversations import assistant, body, encode, user

CAME = encode(body(user("one"), assistant("done"), user("two")))
WENT = encode(body(user("two")))


def asked(content: bytes = CAME, *, path: str = "/v1/messages", **headers: str) -> http.HTTPFlow:
    flow = tflow.tflow(req=tutils.treq(path=path.encode(), method=b"POST"), resp=True)
    flow.request.headers.update({name.replace("_", "-"): value for name, value in headers.items()})
    flow.request.raw_content = content
    return flow


@pytest.fixture
def page() -> Iterator[View]:
    """The list of flows behind mitmweb's page, with the addon beside it."""
    view, addon = View(), Inspection()
    with taddons.context(view) as context:
        context.master.addons.add(addon)
        addon.running()
        yield view
        known = contentviews.registry._by_name  # mitmproxy has no way to take a view back
        known.pop("openmem", None)


def inspection(page: View) -> Inspection:
    found = ctx.master.addons.get("inspection")
    assert isinstance(found, Inspection)
    return found


def shown(flow: http.HTTPFlow, view: str = "auto") -> contentviews.ContentviewResult:
    return contentviews.prettify_message(flow.request, flow, view)


def test_a_rewritten_request_is_shown_as_what_was_done_to_it(page: View) -> None:
    flow = asked()
    inspection(page).request(flow)
    flow.request.content = WENT
    found = shown(flow)
    assert (found.view_name, found.syntax_highlight) == ("OpenMem", "yaml")
    assert found.text.splitlines() == [
        "messages: 1 of 3 forwarded",
        f"bytes: {len(WENT)} of {len(CAME)} forwarded",
        "",
        "1-2: removed, 1 user turn, 1 assistant message",
        "3: as it came",
    ]


def test_an_encoded_request_is_compared_without_its_encoding(page: View) -> None:
    flow = asked(gzip.compress(CAME), content_encoding="gzip")
    inspection(page).request(flow)
    flow.request.content = WENT
    assert shown(flow).text.startswith("messages: 1 of 3 forwarded\n")


def test_a_request_that_was_not_touched_says_so(page: View) -> None:
    flow = asked()
    inspection(page).request(flow)
    assert shown(flow).text == "forwarded as it came"


@pytest.mark.parametrize(
    "flow",
    [
        pytest.param(asked(path="/api/telemetry"), id="another path"),
        pytest.param(asked(b"not gzip", content_encoding="gzip"), id="a lying encoding"),
    ],
)
def test_what_is_none_of_ours_is_shown_by_mitmproxy_itself(page: View, flow: http.HTTPFlow) -> None:
    inspection(page).request(flow)
    assert shown(flow).view_name != "OpenMem"


def test_the_answer_is_shown_by_mitmproxy_itself(page: View) -> None:
    flow = asked()
    inspection(page).request(flow)
    assert flow.response is not None
    flow.response.content = CAME
    assert contentviews.prettify_message(flow.response, flow).view_name != "OpenMem"


def test_a_request_whose_original_is_gone_says_so_where_it_is_asked_for(page: View) -> None:
    found = shown(asked(), "openmem")
    assert "what its agent sent is no longer kept" in found.text


def test_originals_are_kept_up_to_a_size_the_newest_first() -> None:
    originals = Originals(most=10)
    for name in ("one", "two", "three"):
        originals.keep(name, b"12345")
    originals.keep("three", b"1234")
    assert [originals.get(name) for name in ("one", "two", "three")] == [None, b"12345", b"1234"]
    originals.keep("large", b"x" * 11)
    assert [originals.get(name) for name in ("two", "three", "large")] == [None, None, None]


def test_the_page_keeps_the_newest_exchanges_and_those_a_person_marked(
    page: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contentview, "MOST_FLOWS", 2)
    flows = [asked() for _ in range(5)]
    for at, flow in enumerate(flows):
        flow.timestamp_created = flow.request.timestamp_start = at
    flows[0].marked = ":star:"
    flows[1].response = None  # still running
    page.add(flows)
    inspection(page).response(flows[-1])
    assert page.resolve("@all") == flows[:2]


def test_it_is_idle_where_nothing_is_shown() -> None:
    addon, flow = Inspection(), asked()
    with taddons.context():
        addon.running()
        addon.request(flow)
        addon.response(flow)
    view = contentview.Rewritten(addon._originals)
    assert view.render_priority(CAME, Metadata(flow=flow, http_message=flow.request)) < 0
