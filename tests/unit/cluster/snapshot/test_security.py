"""Client properties for TLS and SASL, as Kafka's own tools take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.snapshot.security import Login, Security, security_from
from ebbtide.errors import UsageError

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


def security(folder: Path, text: str) -> Security:
    path = folder / "client.properties"
    path.write_text(text)
    return security_from(path)


def refusal(folder: Path, text: str) -> str:
    with pytest.raises(UsageError) as raised:
        security(folder, text)
    return str(raised.value)


def test_a_login_may_go_over_several_lines_and_has_quotes(tmp_path: Path) -> None:
    text = (
        "security.protocol = SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\nssl.truststore.type=PEM\n"
        f'ssl.truststore.location=/ca.pem\nsasl.jaas.config={SCRAM} \\\n  username="reader" \\\n'
        '  password="a\\\\"b;c";\n'
    )
    assert security(tmp_path, text) == Security(
        protocol="SASL_SSL",
        login=Login(mechanism="SCRAM-SHA-512", username="reader", password='a"b;c'),
        truststore=Path("/ca.pem"),
    )


@pytest.mark.parametrize(
    ("written", "password"),
    [
        (r"caf\u00e9", "café"),
        (r"a\:b\=c\#d\!e", "a:b=c#d!e"),
        (r"tab\there", "tab\there"),
        (r"two\\\\words", r"two\words"),
        ("over\\\n   lines", "overlines"),
        ("even\\\\\\\\", "even\\"),
        (r"jaas\\tab\\101\\u", "jaas\tabAu"),
        (r"\ud83c\udf0a", "🌊"),
    ],
)
def test_escapes_mean_what_they_mean_to_java(tmp_path: Path, written: str, password: str) -> None:
    text = (
        f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} username="a" password="{written}";'
    )
    assert security(tmp_path, text).login == Login(mechanism="PLAIN", username="a", password=password)


def test_a_name_may_be_escaped_and_a_comment_does_not_go_on(tmp_path: Path) -> None:
    found = security(
        tmp_path, "#about \\\nsecurity\\u002eprotocol : SS\\\n  L\nssl.truststore.location /c\\ a.pem\\t\n"
    )
    assert (found.protocol, found.truststore) == ("SSL", Path("/c a.pem"))


def test_bytes_are_latin_1_as_kafkas_tools_read_them(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_bytes("ssl.key.password=gezeitenflu\xdf".encode("latin-1"))
    assert security_from(path).key_password == "gezeitenfluß"


def test_an_escape_that_java_refuses_is_named(tmp_path: Path) -> None:
    said = refusal(tmp_path, "ssl.key.password=a\\u12")
    assert "hexadecimal" in said
    assert "client.properties" in said


def test_an_empty_identification_algorithm_checks_no_host(tmp_path: Path) -> None:
    assert not security(tmp_path, "security.protocol=SSL\nssl.endpoint.identification.algorithm=\n").checks_host


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("security.protocol=TLS", "PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"),
        ("security.protocol=SASL_SSL", "GSSAPI"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN", "PlainLoginModule required"),
        (
            f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={SCRAM} username="a" password="b";',
            "Plain",
        ),
        (f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} username="a";', "password"),
        ("ssl.truststore.type=BCFKS\nssl.truststore.location=/a.jks", "PEM, PKCS12, JKS"),
        ("ssl.truststore.certificates=-----BEGIN", "ssl.truststore.location"),
        ("ssl.endpoint.identification.algorithm=http", "https"),
    ],
)
def test_what_is_not_supported_is_named(tmp_path: Path, text: str, says: str) -> None:
    assert says in refusal(tmp_path, text)


def test_no_password_is_shown(tmp_path: Path) -> None:
    text = f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} username="a" password="ebbing";'
    assert "ebbing" not in repr(security(tmp_path, text))


@pytest.mark.parametrize(
    "line",
    [
        "security.protocol={}",
        "sasl.mechanism={}",
        "sasl.jaas.config={}",
        "sasl.jaas.config=example.Module user={} required;",
        f"sasl.jaas.config={PLAIN} username={{}};",
        f"sasl.jaas.config={PLAIN.removesuffix(' required')} password={{}};",
        "ssl.endpoint.identification.algorithm={}",
        "ssl.truststore.type={}",
        "ssl.keystore.location={}.jks",
        "ssl.keystore.key={}",
        "ssl.keystore.location=/{}",
        "ssl.truststore.location=/{}\nssl.key.password={}",
    ],
)
def test_no_mistake_in_a_line_shows_its_value(tmp_path: Path, line: str) -> None:
    text = f"security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={PLAIN} username=u password=p;\n"
    with pytest.raises(UsageError) as raised:
        security(tmp_path, text + line.format("ebbing", "ebbing")).tls_context()
    assert "ebbing" not in raised.value.render()
    assert line.partition("=")[0] in raised.value.render()


def test_a_truststore_that_is_no_pem_is_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("not a certificate")
    trust = security(tmp_path, f"security.protocol=SSL\nssl.truststore.location={tmp_path / 'ca.pem'}")
    with pytest.raises(UsageError, match="the certificates cannot be read"):
        trust.tls_context()


def test_a_missing_truststore_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        security(tmp_path, "security.protocol=SSL\nssl.truststore.location=/no/ca.pem").tls_context()
