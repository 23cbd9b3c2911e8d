"""The throwaway certificate."""

import datetime
import stat

from cryptography import x509

from fixtures.provider import certificate


def test_the_certificate_names_its_hosts_and_the_key_is_the_owners_alone(tmp_path):
    now = datetime.datetime(2026, 5, 1, tzinfo=datetime.UTC)
    files = certificate.make(tmp_path, ["localhost", "api.anthropic.com"], now=now)
    cert = x509.load_pem_x509_certificate(files.cert.read_bytes())
    names = cert.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "api.anthropic.com"]
    assert cert.not_valid_before_utc == now - datetime.timedelta(days=1)
    assert stat.S_IMODE(files.key.stat().st_mode) == 0o600
    cert.verify_directly_issued_by(x509.load_pem_x509_certificate(files.ca.read_bytes()))
