"""Whose rule: the provider hosts are intercepted, every other host is not."""

import pytest
from openmem_addon import hosts
from openmem_addon.hosts import Host

READ = {
    "llm.example.com": Host("llm.example.com"),
    " LLM.Example.com ": Host("llm.example.com"),
    "llm.example.com.": Host("llm.example.com"),
    "llm.example.com:8443": Host("llm.example.com", 8443),
    "*.example.com": Host("example.com", 443, wildcard=True),
    "*.example.com:8443": Host("example.com", 8443, wildcard=True),
    "localhost:4000": Host("localhost", 4000),
    "10.0.0.7": Host("10.0.0.7"),
    "10.0.0.7:4000": Host("10.0.0.7", 4000),
    "2001:db8::1": Host("2001:db8::1"),
    "[2001:db8::1]:4000": Host("2001:db8::1", 4000),
    "https://llm.example.com/v1": Host("llm.example.com"),
    "http://llm.example.com": Host("llm.example.com", 80),
    "http://127.0.0.1:9000": Host("127.0.0.1", 9000),
}


@pytest.mark.parametrize(("entry", "host"), READ.items())
def test_a_host_is_read_as_a_person_writes_it(entry: str, host: Host) -> None:
    assert hosts.parse(entry) == host


@pytest.mark.parametrize(
    "entry",
    ["", "*", "*.", "a b", "host:port", "host:70000", "ftp://x.example", "a/b", "-a.example", "a..b", "x*y.example"],
)
def test_what_is_no_host_is_refused_by_name(entry: str) -> None:
    with pytest.raises(ValueError, match="names no host: give host, host:port") as refusal:
        hosts.parse(entry)
    assert repr(entry) in str(refusal.value)


ASKED = {
    ("api.anthropic.com", 443): True,
    ("API.Anthropic.com", 443): True,
    ("api.anthropic.com.", 443): True,
    ("api.openai.com", 443): True,
    ("chatgpt.com", 443): True,
    ("eu.region.chatgpt.com", 443): True,
    ("openrouter.ai", 443): True,
    ("api.anthropic.com", 8443): False,
    ("api.anthropic.com.example.net", 443): False,
    ("notchatgpt.com", 443): False,
    ("evil-api.anthropic.com", 443): False,
    ("apixanthropic.com", 443): False,
    ("console.anthropic.com", 443): False,
}


@pytest.mark.parametrize(("target", "expected"), ASKED.items())
def test_only_the_named_hosts_on_their_ports_are_providers(target: tuple[str, int], expected: bool) -> None:
    assert hosts.permits(hosts.PROVIDERS, *target) is expected


def test_a_wildcard_covers_what_is_below_and_not_the_name_itself() -> None:
    listed = [hosts.parse("*.example.com")]
    assert hosts.permits(listed, "a.b.example.com", 443)
    assert not hosts.permits(listed, "example.com", 443)


def test_an_address_is_permitted_on_its_port() -> None:
    listed = [hosts.parse("[2001:db8::1]:4000"), hosts.parse("10.0.0.7:4000")]
    assert hosts.permits(listed, "2001:db8::1", 4000)
    assert hosts.permits(listed, "10.0.0.7", 4000)
    assert not hosts.permits(listed, "10.0.0.70", 4000)
