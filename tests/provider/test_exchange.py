"""The record of exchanges."""

import json
import stat

from fixtures.provider.exchange import Exchange, Log, redacted

ONE = Exchange(number=1, method="GET", path="/x", headers=(("Host", "a"),), status=404)


def test_secrets_never_reach_the_record():
    headers = [("X-Api-Key", "secret"), ("authorization", "Bearer secret"), ("host", "a")]
    assert redacted(headers) == (("X-Api-Key", "[redacted]"), ("authorization", "[redacted]"), ("host", "a"))


def test_the_file_has_one_line_each_and_is_the_owners_alone(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path)
    log.add(ONE)
    log.add(ONE)
    log.close()
    lines = path.read_text().splitlines()
    assert len(lines) == len(log.exchanges) == 2
    assert json.loads(lines[0])["path"] == "/x"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_header_is_found_whatever_its_case():
    assert ONE.header("host") == "a"
    assert ONE.header("accept") is None
