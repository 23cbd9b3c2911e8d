"""The test-only redirection."""

from mitmproxy.test import taddons, tflow

from tests.redirect import Redirect


def test_a_request_goes_to_the_loopback_and_keeps_its_host_header():
    addon = Redirect()
    with taddons.context(addon, options=None) as context:
        context.configure(addon, redirect_port=4321)
        flow = tflow.tflow()
        flow.request.host_header = "api.anthropic.com"
        addon.request(flow)
    assert (flow.request.scheme, flow.request.host, flow.request.port) == ("http", "127.0.0.1", 4321)
    assert flow.request.host_header == "api.anthropic.com"


def test_tls_to_the_provider_is_an_option():
    addon = Redirect()
    with taddons.context(addon) as context:
        context.configure(addon, redirect_port=4321, redirect_tls=True)
        flow = tflow.tflow()
        addon.request(flow)
    assert flow.request.scheme == "https"


def test_an_answered_request_and_the_addons_own_host_are_left_alone():
    addon = Redirect()
    with taddons.context(addon) as context:
        context.configure(addon, redirect_port=4321)
        answered = tflow.tflow(resp=True)
        own = tflow.tflow()
        own.request.host = "openmem.local"
        addon.request(answered)
        addon.request(own)
    assert (answered.request.host, own.request.host) == ("address", "openmem.local")


def test_without_a_port_nothing_is_redirected():
    addon = Redirect()
    with taddons.context(addon):
        flow = tflow.tflow()
        addon.request(flow)
    assert flow.request.host == "address"
