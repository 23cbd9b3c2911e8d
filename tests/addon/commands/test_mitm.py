from pathlib import Path

import pytest
from openmem_addon import hosts
from openmem_addon.commands import mitm
from openmem_addon.commands.mitm import Arguments

PORTS = {
    (): 8080,
    ("--listen-port", "9"): 9,
    ("--listen-port=9",): 9,
    ("-p", "9"): 9,
    ("-p9",): 9,
    ("--set", "listen_port=9"): 9,
    ("--set=listen_port=9",): 9,
    ("-p", "9", "--listen-port", "10"): 10,
    ("--mode", "reverse:http://127.0.0.1:9000", "-p", "8081"): 8081,
    ("--mode", "reverse:http://127.0.0.1:9000@8082"): 8082,
    ("--mode", "regular@127.0.0.1:8083", "-p", "8081"): 8083,
}


@pytest.mark.parametrize(("given", "port"), PORTS.items())
def test_the_port_is_read_in_every_spelling_mitmproxy_knows(given: tuple[str, ...], port: int) -> None:
    assert Arguments(given).port == port


@pytest.mark.parametrize("text", ["x", "0", "65536", "-1", ""])
def test_a_port_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a number from 1 to 65535"):
        _ = Arguments(("--listen-port", text)).port


def test_a_reverse_upstream_counts_as_a_provider_host() -> None:
    given = Arguments(("--mode", "regular", "-m", "reverse:http://127.0.0.1:9000@8081"))
    assert given.reverse_upstreams == (hosts.Host("127.0.0.1", 9000),)
    assert given.is_reverse
    assert r"allow_hosts=^127\.0\.0\.1:9000$" in built(given)


def test_a_regular_proxy_has_no_upstream() -> None:
    assert Arguments(("--mode", "upstream:http://10.0.0.1:3128")).reverse_upstreams == ()
    assert not Arguments().is_reverse


def test_ours_stand_before_the_users_and_bind_loopback() -> None:
    words = built(Arguments(("--listen-port", "9", "flow.filter")))
    assert words[:6] == ["-s", "/addon/main.py", "--listen-host", "127.0.0.1", "--listen-port", "8080"]
    assert words[-3:] == ["--listen-port", "9", "flow.filter"]


def test_the_options_that_interception_rests_on_are_set() -> None:
    options = {word for word in built(Arguments()) if "=" in word}
    assert {
        "confdir=/certs",
        "upstream_cert=false",
        "connection_strategy=lazy",
        "tcp_timeout=3600",
        "http2=false",
        "stream_large_bodies=64m",
        "ssl_verify_upstream_trusted_ca=/certs/roots.pem",
        r"allow_hosts=^api\.anthropic\.com:443$",
        r"allow_hosts=^(?:[a-z0-9_-]+\.)+chatgpt\.com:443$",
    } <= options


def options(*given: str, web: bool) -> dict[str, str]:
    words = mitm.arguments(
        Arguments(given), script=Path("/addon/main.py"), confdir=Path("/certs"), roots=None, allowed=(), web=web
    )
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_neither_program_says_a_line_per_connection() -> None:
    quiet = {"termlog_verbosity": "warn"}
    both = {web: options(web=web) for web in (False, True)}
    assert {name: value for name, value in both[False].items() if name not in both[True]} == {"flow_detail": "0"}
    assert {name: value for name, value in both[True].items() if name not in both[False]} == {"web_port": "8081"}
    assert quiet.items() <= both[False].items() & both[True].items()


@pytest.mark.parametrize(
    ("given", "page"),
    [(("-p", "8081"), "8082"), (("-p", "65535"), "65534"), (("--set", "web_port=9"), "9")],
)
def test_the_web_page_goes_to_the_port_behind_the_proxys(given: tuple[str, ...], page: str) -> None:
    assert options(*given, web=True)["web_port"] == page


def test_a_port_for_the_web_page_of_the_users_replaces_ours() -> None:
    assert "web_port" not in options("--web-port", "9", web=True)


@pytest.mark.parametrize(
    ("given", "host"),
    [
        ((), "127.0.0.1"),
        (("--listen-host", "0.0.0.0"), "0.0.0.0"),
        (("--mode", "regular@10.0.0.1:9", "--listen-host", "127.0.0.1"), "10.0.0.1"),
        (("--mode", "regular@9"), "127.0.0.1"),
    ],
)
def test_the_address_is_the_first_modes_own_or_the_common_one(given: tuple[str, ...], host: str) -> None:
    assert Arguments(given).host == host


def test_an_option_the_user_sets_is_not_set_twice() -> None:
    """mitmproxy refuses two values for an option that takes one."""
    words = built(Arguments(("--set", "tcp_timeout=60", "--set", "confdir=/mine")))
    assert [word for word in words if word.startswith(("tcp_timeout", "confdir"))] == [
        "tcp_timeout=60",
        "confdir=/mine",
    ]


def test_an_interception_list_of_the_users_replaces_ours() -> None:
    words = built(Arguments(("--allow-hosts", "^x:443$")))
    assert not any(word.startswith("allow_hosts=") for word in words)


def built(given: Arguments) -> list[str]:
    return mitm.arguments(
        given,
        script=Path("/addon/main.py"),
        confdir=Path("/certs"),
        roots=Path("/certs/roots.pem"),
        allowed=hosts.PROVIDERS,
    )


def test_the_port_of_a_launcher_wins_over_an_argument() -> None:
    assert mitm.with_port(("-p", "7"), 9).port == 9


@pytest.mark.parametrize(
    ("given", "only"), {(): True, ("-p", "9"): True, ("-p9",): True, ("-p9", "-q"): False, ("-q",): False}.items()
)
def test_a_proxy_asked_for_by_its_port_alone_is_any_proxy(given: tuple[str, ...], only: bool) -> None:
    assert Arguments(given).only_the_port is only
