"""Truststores and keystores as Java makes them, and tokens for OAUTHBEARER and AWS MSK."""

from __future__ import annotations

import base64
import json
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from cluster.snapshot.security import Login, Security, security_from
from ebbtide.errors import UsageError

PASSWORD = "ebbing"


def _keytool(*words: str) -> None:
    quick = ("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
    subprocess.run(["keytool", *quick, *words], check=True, capture_output=True)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a keystore and a truststore of one certificate, in each format."""
    folder = tmp_path_factory.mktemp("stores")
    for kind in ("JKS", "PKCS12"):
        key, trusted = folder / f"key.{kind}", folder / f"trust.{kind}"
        made = ["-genkeypair", "-alias", "node", "-keyalg", "EC", "-dname", "CN=localhost", "-ext", "san=dns:localhost"]
        inner = "of-the-key" if kind == "JKS" else PASSWORD
        at = ["-storetype", kind, "-storepass", PASSWORD, "-keystore"]
        _keytool(*made, "-keypass", inner, *at, str(key))
        certificate = folder / f"{kind}.crt"
        _keytool("-exportcert", "-alias", "node", "-rfc", "-file", str(certificate), *at, str(key))
        _keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(certificate), *at, str(trusted))
    return folder


def security(folder: Path, *lines: str) -> Security:
    path = folder / "client.properties"
    path.write_text("\n".join(lines))
    return security_from(path)


def _shakes_hands(client: ssl.SSLContext, server: ssl.SSLContext) -> bool:
    """Whether a client and a server, who must show their certificates, trust each other."""
    pipes = [(ssl.MemoryBIO(), ssl.MemoryBIO()) for _ in range(2)]
    (a_in, a_out), (b_in, b_out) = pipes
    sides = [client.wrap_bio(a_in, a_out, server_hostname="localhost"), server.wrap_bio(b_in, b_out, server_side=True)]
    done = set[int]()
    for _ in range(10):
        for number, side in enumerate(sides):
            try:
                side.do_handshake()
                done.add(number)
            except ssl.SSLWantReadError:
                pass
            b_in.write(a_out.read())
            a_in.write(b_out.read())
    return len(done) == 2


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_a_store_of_java_is_taken_with_its_passwords(kind: str, stores: Path, tmp_path: Path) -> None:
    inner = "of-the-key" if kind == "JKS" else PASSWORD
    both = security(
        tmp_path,
        "security.protocol=SSL",
        f"ssl.truststore.location={stores / f'trust.{kind}'}",
        f"ssl.truststore.password={PASSWORD}",
        f"ssl.keystore.location={stores / f'key.{kind}'}",
        f"ssl.keystore.password={PASSWORD}",
        f"ssl.key.password={inner}",
        "ssl.keystore.type=JKS",  # Java, too, reads PKCS12 of this type
    )
    client = both.tls_context()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.verify_mode = ssl.CERT_REQUIRED
    pem = tmp_path / "server.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subprocess.run(
        [*made, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", pem, "-out", pem],
        check=True,
        capture_output=True,
    )
    server.load_cert_chain(pem)
    client.load_verify_locations(pem)
    server.load_verify_locations(stores / f"{kind}.crt")
    assert _shakes_hands(client, server)
    assert client.cert_store_stats()["x509"] == 2


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_wrong_password_of_a_store_is_one_error_without_it(
    kind: str, store: str, stores: Path, tmp_path: Path
) -> None:
    file = stores / f"{'trust' if store == 'truststore' else 'key'}.{kind}"
    wrong = security(
        tmp_path, "security.protocol=SSL", f"ssl.{store}.location={file}", f"ssl.{store}.password=not-the-one"
    )
    with pytest.raises(UsageError, match="its password is wrong or missing") as caught:
        wrong.tls_context()
    assert caught.value.where == f"--command-config: ssl.{store}.location"
    assert "not-the-one" not in caught.value.render()


def test_a_key_is_in_a_file_of_this_user_for_a_moment_only(
    stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    seen: list[tuple[int, bytes]] = []
    load = ssl.SSLContext.load_cert_chain

    def watched(self: ssl.SSLContext, path: Path, *more: object) -> None:
        seen.append((stat.S_IMODE(Path(path).stat().st_mode), Path(path).read_bytes()))
        load(self, path, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", watched)
    of = security(
        tmp_path,
        "security.protocol=SSL",
        f"ssl.keystore.location={stores / 'key.PKCS12'}",
        f"ssl.keystore.password={PASSWORD}",
    )
    of.tls_context()
    ((mode, content),) = seen
    assert mode == 0o600
    assert b"ENCRYPTED PRIVATE KEY" in content
    assert not list(scratch.iterdir())


@pytest.mark.parametrize(("kind", "lacks", "says"), [("PKCS12", "cryptography", "pip install"), ("JKS", "", "Java")])
def test_what_reads_a_store_is_named_where_it_is_missing(
    kind: str, lacks: str, says: str, stores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.serialization.pkcs12", None)  # type: ignore[arg-type]
    monkeypatch.setenv("PATH", "/nowhere")
    of = security(tmp_path, "security.protocol=SSL", f"ssl.truststore.location={stores / f'trust.{kind}'}")
    with pytest.raises(UsageError) as caught:
        of.tls_context()
    assert lacks in caught.value.render()
    assert says in (caught.value.next or "")


@contextmanager
def _endpoint(code: int, answer: bytes) -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    asked: list[tuple[str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked.append((self.headers["Authorization"], body))
            self.send_response(code)
            self.send_header("Location", "/elsewhere")  # counts with 302 alone
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/token", asked
        finally:
            server.shutdown()
            thread.join(5.0)


def _login(folder: Path, *lines: str) -> Login:
    login = security(folder, "security.protocol=SASL_SSL", *lines).login
    assert login is not None
    return login


def _token(login: Login, address: str = "b-1.my.abc.c2.kafka.eu-west-1.amazonaws.com:9098") -> str:
    assert login.mechanism == "OAUTHBEARER"
    assert login.token is not None
    return login.token.provider(address).token()  # type: ignore[no-any-return]


MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


def test_a_token_is_got_for_the_credentials_of_a_client(tmp_path: Path) -> None:
    jaas = f'{MODULE} clientId="reader" clientSecret="{PASSWORD}" scope="kafka";'
    with _endpoint(200, b'{"access_token": "a.b.c", "expires_in": 300}') as (url, asked):
        login = _login(
            tmp_path,
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.oauthbearer.token.endpoint.url={url}",
            f"sasl.jaas.config={jaas}",
        )
        assert _token(login) == "a.b.c"
    ((header, body),) = asked
    assert base64.b64decode(header.removeprefix("Basic ")) == f"reader:{PASSWORD}".encode()
    assert body == b"grant_type=client_credentials&scope=kafka"
    assert PASSWORD not in repr(login)


@pytest.mark.parametrize(
    ("code", "answer", "says"),
    [
        (401, b"{}", "HTTP 401"),
        (302, b"", "HTTP 302"),
        (200, b"[]", "without access_token"),
        (200, b"<html>", "JSONDecodeError"),
    ],
)
def test_an_endpoint_without_a_token_is_one_error(code: int, answer: bytes, says: str, tmp_path: Path) -> None:
    with _endpoint(code, answer) as (url, _):
        login = _login(
            tmp_path,
            "sasl.mechanism=OAUTHBEARER",
            f"sasl.oauthbearer.token.endpoint.url={url}",
            "sasl.oauthbearer.client.credentials.client.id=reader",
            f"sasl.oauthbearer.client.credentials.client.secret={PASSWORD}",
        )
        with pytest.raises(UsageError, match="the token endpoint gives no token") as caught:
            _token(login)
    assert says in caught.value.render()
    assert PASSWORD not in caught.value.render()


def test_a_token_may_be_given_in_a_file_and_for_tests_it_needs_no_signature(tmp_path: Path) -> None:
    (tmp_path / "a token").write_text("a.b.c\n")
    url = f"sasl.oauthbearer.token.endpoint.url=file://{tmp_path}/a%20token"
    assert _token(_login(tmp_path, "sasl.mechanism=OAUTHBEARER", url)) == "a.b.c"
    jaas = f'sasl.jaas.config={MODULE} unsecuredLoginStringClaim_sub="reader";'
    header, claims, signature = _token(_login(tmp_path, "sasl.mechanism=OAUTHBEARER", jaas)).split(".")
    assert json.loads(base64.urlsafe_b64decode(claims + "==="))["sub"] == "reader"
    assert (json.loads(base64.urlsafe_b64decode(header + "===")), signature) == ({"alg": "none"}, "")


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        ((), "sasl.oauthbearer.token.endpoint.url"),
        (("sasl.oauthbearer.token.endpoint.url=ftp://ebbing",), "sasl.oauthbearer.token.endpoint.url"),
        (("sasl.oauthbearer.token.endpoint.url=https://h/t",), "no clientId"),
    ],
)
def test_a_token_without_a_source_is_named(lines: tuple[str, ...], says: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        _login(tmp_path, "sasl.mechanism=OAUTHBEARER", *lines)
    assert says in caught.value.render()
    assert "ebbing" not in caught.value.render()


class _Signer:
    """The library's interface: a token, and when it expires."""

    @staticmethod
    def generate_auth_token(region: str) -> tuple[str, int]:
        return f"of {region}", 0

    @staticmethod
    def generate_auth_token_from_profile(region: str, profile: str) -> tuple[str, int]:
        return f"of {region}, {profile}", 0

    @staticmethod
    def generate_auth_token_from_role_arn(region: str, role: str, session: str) -> tuple[str, int]:
        raise ValueError(f"no such role, but {PASSWORD}")


IAM = "sasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required"


def test_a_login_by_aws_iam_takes_the_region_of_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = ModuleType("aws_msk_iam_sasl_signer")
    library.MSKAuthTokenProvider = _Signer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library.__name__, library)
    monkeypatch.delenv("AWS_REGION", raising=False)
    plain = _login(tmp_path, "sasl.mechanism=AWS_MSK_IAM", f"{IAM};")
    assert _token(plain) == "of eu-west-1"
    named = _login(tmp_path, "sasl.mechanism=AWS_MSK_IAM", f'{IAM} awsProfileName="ops";')
    assert _token(named) == "of eu-west-1, ops"
    with pytest.raises(UsageError, match="the AWS region is not known"):
        _token(plain, "localhost:9098")
    handler = "sasl.login.callback.handler.class=software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    role = _login(tmp_path, "sasl.mechanism=OAUTHBEARER", handler, f'sasl.jaas.config={MODULE} awsRoleArn="arn:x";')
    with pytest.raises(UsageError, match="AWS gives no token") as caught:
        _token(role)
    assert PASSWORD not in caught.value.render()


def test_the_library_of_aws_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"pip install 'ebbtide\[msk\]'"):
        _token(_login(tmp_path, "sasl.mechanism=AWS_MSK_IAM", f"{IAM};"))
