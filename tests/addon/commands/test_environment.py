import pytest
from openmem_addon import hosts
from openmem_addon.commands import environment
from openmem_addon.commands.clients import ANY, CLIENTS, Client
from openmem_addon.commands.environment import Chain

CLAUDE = CLIENTS["claude"]
ENDPOINT = CLAUDE.endpoints[0]
ALLOWED = (*hosts.PROVIDERS, hosts.parse("llm.example.com"))


def test_nothing_inherited_is_lost_and_plain_http_is_left_alone() -> None:
    inherited = {"PATH": "/bin", "HTTP_PROXY": "http://10.0.0.1:3128"}
    assert environment.through_proxy(inherited, port=9, trust={"SSL_CERT_FILE": "/bundle"}) == {
        "PATH": "/bin",
        "HTTP_PROXY": "http://10.0.0.1:3128",
        "SSL_CERT_FILE": "/bundle",
        "HTTPS_PROXY": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:9",
        "NO_PROXY": "localhost,127.0.0.1,::1",
        "no_proxy": "localhost,127.0.0.1,::1",
    }


def test_the_inherited_environment_itself_stays_as_it_is() -> None:
    inherited = {"HTTPS_PROXY": "http://10.0.0.1:3128"}
    environment.through_proxy(inherited, port=9, trust={})
    assert inherited == {"HTTPS_PROXY": "http://10.0.0.1:3128"}


def test_hosts_that_go_past_a_proxy_go_on_doing_so() -> None:
    found = environment.through_proxy({"no_proxy": " intranet , localhost"}, port=9, trust={})
    assert found["NO_PROXY"] == "intranet,localhost,127.0.0.1,::1"


def test_an_agent_with_a_base_url_is_told_it_and_reaches_this_machine_past_any_proxy() -> None:
    told = {"ANTHROPIC_BASE_URL": "http://127.0.0.1:9"}
    inherited = {"PATH": "/bin", "ANTHROPIC_BASE_URL": "https://llm.example.com", "HTTPS_PROXY": "http://10.0.0.1:3128"}
    assert environment.through_base_urls(inherited, told) == {
        **inherited,
        **told,
        "NO_PROXY": "localhost,127.0.0.1,::1",
        "no_proxy": "localhost,127.0.0.1,::1",
    }


@pytest.mark.parametrize(
    ("inherited", "expected"),
    [
        ({}, "http://127.0.0.1:9"),
        ({"ANTHROPIC_BASE_URL": "https://llm.example.com"}, "http://127.0.0.1:9"),
        ({"ANTHROPIC_BASE_URL": "https://llm.example.com/team/a/"}, "http://127.0.0.1:9/team/a"),
    ],
)
def test_a_base_url_keeps_its_path(inherited: dict[str, str], expected: str) -> None:
    assert environment.base_url(inherited, ENDPOINT, port=9) == expected


def test_a_base_url_has_the_path_that_its_agent_expects() -> None:
    """Claude Code adds `/v1` itself; the libraries in Codex and OpenCode do not."""
    paths = {
        name: [environment.base_url({}, endpoint, port=9) for endpoint in client.endpoints]
        for name, client in CLIENTS.items()
    }
    assert paths == {
        "claude": ["http://127.0.0.1:9"],
        "codex": ["http://127.0.0.1:9/v1"],
        "opencode": ["http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"],
    }


UPSTREAMS = {
    "": "https://api.anthropic.com",
    "https://llm.example.com/team": "https://llm.example.com",
    "http://127.0.0.1:4000": "http://127.0.0.1:4000",
    "https://user:secret@llm.example.com:8443/x": "https://llm.example.com:8443",
}


@pytest.mark.parametrize(("base", "upstream"), UPSTREAMS.items())
def test_the_reverse_proxy_leads_where_the_user_pointed(base: str, upstream: str) -> None:
    assert environment.reverse_upstream({"ANTHROPIC_BASE_URL": base}, ENDPOINT) == upstream


@pytest.mark.parametrize("base", ["llm.example.com", "ftp://llm.example.com", "https://"])
def test_a_base_url_that_is_none_is_refused(base: str) -> None:
    with pytest.raises(ValueError, match="ANTHROPIC_BASE_URL must begin with"):
        environment.reverse_upstream({"ANTHROPIC_BASE_URL": base}, ENDPOINT)


CHAINS = {
    "http://10.0.0.1:3128": "upstream:http://10.0.0.1:3128",
    "10.0.0.1:3128": "upstream:http://10.0.0.1:3128",
    "https://proxy.example.com": "upstream:https://proxy.example.com:443",
    "http://[2001:db8::1]:3128": "upstream:http://[2001:db8::1]:3128",
    "http://127.0.0.1:3128": "upstream:http://127.0.0.1:3128",
}


@pytest.mark.parametrize(("value", "mode"), CHAINS.items())
@pytest.mark.parametrize("name", ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"])
def test_an_inherited_proxy_is_chained(name: str, value: str, mode: str) -> None:
    assert environment.chain({name: value}, own_port=8080) == Chain(mode)


@pytest.mark.parametrize("value", ["http://127.0.0.1:8080", "http://localhost:8080/", ""])
def test_our_own_proxy_is_not_chained_to_itself(value: str) -> None:
    assert environment.chain({"HTTPS_PROXY": value}, own_port=8080) is None


@pytest.mark.parametrize("value", ["socks5://10.0.0.1:1080", "http://10.0.0.1:port"])
def test_a_proxy_that_cannot_be_chained_is_said_to_be_so(value: str) -> None:
    found = environment.chain({"HTTPS_PROXY": value}, own_port=8080)
    assert found is not None
    assert found.mode is None
    assert found.warning


def test_a_proxys_password_is_neither_shown_nor_put_on_a_command_line() -> None:
    found = environment.chain({"HTTPS_PROXY": "http://ann:secret@10.0.0.1:3128"}, own_port=8080)
    assert found is not None
    assert found.mode == "upstream:http://10.0.0.1:3128"
    assert "--upstream-auth" in (found.warning or "")
    assert "secret" not in repr(found)


SEEN = [
    {},
    {"ANTHROPIC_BASE_URL": "https://llm.example.com/v1"},
    {"NO_PROXY": "intranet,.example.org"},
]


@pytest.mark.parametrize("inherited", SEEN)
def test_an_environment_whose_requests_we_see_needs_no_warning(inherited: dict[str, str]) -> None:
    assert environment.bypasses(inherited, ALLOWED, CLAUDE) == []


PASSED_BY = [
    ({"ANTHROPIC_BASE_URL": "https://other.example.com"}, "ANTHROPIC_BASE_URL leads to other.example.com"),
    ({"ANTHROPIC_BASE_URL": "http://127.0.0.1:4000"}, "ANTHROPIC_BASE_URL leads to 127.0.0.1"),
    ({"NO_PROXY": "*"}, "NO_PROXY names api.anthropic.com"),
    ({"no_proxy": "anthropic.com"}, "NO_PROXY names api.anthropic.com"),
]


@pytest.mark.parametrize(("inherited", "beginning"), PASSED_BY)
def test_a_setting_that_leads_past_the_proxy_is_named(inherited: dict[str, str], beginning: str) -> None:
    (line,) = environment.bypasses(inherited, ALLOWED, CLAUDE)
    assert line.startswith(beginning)


def test_a_server_on_this_machine_is_reached_without_a_certificate_alone() -> None:
    [local] = environment.bypasses({"ANTHROPIC_BASE_URL": "http://127.0.0.1:4000"}, ALLOWED, CLAUDE)
    [other] = environment.bypasses({"ANTHROPIC_BASE_URL": "https://other.example.com"}, ALLOWED, CLAUDE)
    assert local.endswith("use --no-ca, which goes on to it")
    assert other.endswith("use --no-ca, which goes on to it, or name it in CONTEXT_PROVIDER_HOSTS")


def test_every_provider_of_an_agent_that_goes_past_is_named() -> None:
    found = environment.bypasses({"NO_PROXY": "openai.com,chatgpt.com"}, ALLOWED, CLIENTS["codex"])
    assert [line.split(":")[0] for line in found] == ["NO_PROXY names api.openai.com", "NO_PROXY names chatgpt.com"]


def test_a_provider_that_a_base_url_replaces_is_not_missed() -> None:
    inherited = {"OPENAI_BASE_URL": "https://llm.example.com/v1", "NO_PROXY": "api.openai.com"}
    assert environment.bypasses(inherited, ALLOWED, CLIENTS["opencode"]) == []


def test_a_base_url_of_another_vendor_is_nothing_to_an_agent() -> None:
    assert environment.bypasses({"OPENAI_BASE_URL": "https://other.example.com"}, ALLOWED, CLAUDE) == []


@pytest.mark.parametrize("client", [*CLIENTS.values(), ANY], ids=lambda client: client.title)
def test_each_default_is_a_provider_that_is_intercepted(client: Client) -> None:
    defaults = [hosts.parse(endpoint.default.removesuffix("/v1")) for endpoint in client.endpoints]
    assert all(hosts.permits(hosts.PROVIDERS, host.name, host.port) for host in defaults)
    assert all(hosts.permits(hosts.PROVIDERS, name, 443) for name in client.hosts)
