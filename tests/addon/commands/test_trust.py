import datetime
import ssl
import stat
from pathlib import Path

import pytest
from openmem_addon import hosts
from openmem_addon.commands import certificate, trust
from openmem_addon.commands.certificate import Authority

NOW = datetime.datetime.now(datetime.UTC)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return certificate.ensure(tmp_path / "certs", hosts.PROVIDERS, now=NOW)


@pytest.fixture
def company(tmp_path: Path) -> Path:
    """The root certificate of a company, in a file that the user's environment names."""
    other = certificate.ensure(tmp_path / "company", [hosts.parse("intranet.example.com")], now=NOW)
    return other.certificate


def blocks(*files: Path) -> list[bytes]:
    return trust.certificates(files)


def test_the_bundle_holds_our_certificate_and_the_machines_roots(authority: Authority) -> None:
    trust.write_bundles(authority, {})
    assert blocks(authority.bundle) == blocks(authority.certificate, authority.roots)
    assert len(blocks(authority.roots)) > 50
    assert blocks(authority.certificate)[0] not in blocks(authority.roots)


def test_a_client_can_load_the_bundle(authority: Authority) -> None:
    trust.write_bundles(authority, {})
    context = ssl.create_default_context(cafile=str(authority.bundle))
    assert len(context.get_ca_certs()) == len(blocks(authority.bundle))


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"])
def test_a_companys_root_stays_trusted(authority: Authority, company: Path, name: str) -> None:
    trust.write_bundles(authority, {name: str(company)})
    assert blocks(company)[0] in blocks(authority.bundle)
    assert blocks(company)[0] in blocks(authority.roots)


def test_a_launcher_inside_a_launched_agent_does_not_feed_on_its_own_bundle(authority: Authority) -> None:
    trust.write_bundles(authority, {})
    before = authority.roots.read_bytes()
    trust.write_bundles(authority, trust.variables(authority, {}))
    assert authority.roots.read_bytes() == before


def test_a_file_that_is_named_and_not_there_is_no_failure(authority: Authority) -> None:
    trust.write_bundles(authority, {"SSL_CERT_FILE": "/no/such/file.pem"})
    assert blocks(authority.bundle)


def test_the_bundles_are_written_only_when_they_change(authority: Authority) -> None:
    trust.write_bundles(authority, {})
    before = authority.bundle.stat()
    trust.write_bundles(authority, {})
    assert authority.bundle.stat() == before
    assert stat.S_IMODE(before.st_mode) == 0o600


def test_each_clients_variable_is_set(authority: Authority) -> None:
    assert trust.variables(authority, {}) == {
        "NODE_EXTRA_CA_CERTS": str(authority.certificate),
        "CODEX_CA_CERTIFICATE": str(authority.bundle),
        "SSL_CERT_FILE": str(authority.bundle),
        "REQUESTS_CA_BUNDLE": str(authority.bundle),
        "CURL_CA_BUNDLE": str(authority.bundle),
    }


def test_a_file_the_user_gave_to_node_is_not_taken_away(authority: Authority, company: Path) -> None:
    found = trust.variables(authority, {"NODE_EXTRA_CA_CERTS": str(company)})
    assert found["NODE_EXTRA_CA_CERTS"] == str(authority.bundle)
