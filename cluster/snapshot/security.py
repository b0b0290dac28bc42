"""Reads the client properties that Kafka's own tools take with `--command-config`.

No message shows a value of the file: a mistake in one line may leave a password in any of them. Of a value that Ebbtide
does not support, only words of Kafka's own are shown, such as GSSAPI.
"""

from __future__ import annotations

import re
import ssl
from pathlib import Path

import msgspec

from cluster.snapshot.stores import StoreUnreadable, show_certificate, trust
from cluster.snapshot.tokens import MSK, OAUTH, TokenSource
from ebbtide.errors import UsageError
from ebbtide.properties_file import parse
from ebbtide.scenario.kafka_settings import settings_at
from ebbtide.shown_text import HIDDEN
from ebbtide.suggestions import nearest_words
from ebbtide.untrusted.files import SMALL_BYTES_MAX, UnreadableFile, read_file

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTH, MSK)
STORES = ("PEM", "PKCS12", "JKS")
_KAFKAS_WORDS = (
    *PROTOCOLS,
    *MECHANISMS,
    *STORES,
    "GSSAPI",
    "BCFKS",
    "TLS",
)
_KAFKAS_MODULES = (
    "PlainLoginModule",
    "ScramLoginModule",
    "OAuthBearerLoginModule",
    "Krb5LoginModule",
    "IAMLoginModule",
)
_OPTION = "--command-config"
_ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
_STORE_KEYS = [f"ssl.{store}.{key}" for store in ("truststore", "keystore") for key in ("location", "password", "type")]
_SASL_KEYS = ["sasl.mechanism", "sasl.jaas.config", _ENDPOINT]
_READ = ["security.protocol", "ssl.key.password", "ssl.endpoint.identification.algorithm", *_STORE_KEYS, *_SASL_KEYS]
_TRIMMED = "".join(map(chr, range(0x21)))
"""What Java's `trim` takes off a value, and so Kafka off most of its properties."""
_MODULES = {"PlainLoginModule": ("PLAIN",), "ScramLoginModule": MECHANISMS[1:3]}
_IAM_HANDLER = "IAMOAuthBearerLoginCallbackHandler"
"""The class by which a Java client of AWS MSK gets tokens for OAUTHBEARER."""
_JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_JAAS_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_JAAS_VALUE = re.compile(r'(\w+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s;"]+)')


class Login(msgspec.Struct, frozen=True, kw_only=True):
    """A SASL login, by a password or a token; it is in no message and no snapshot."""

    mechanism: str
    username: str = ""
    password: str = ""
    token: TokenSource | None = None

    def settings(self, address: str) -> dict[str, object]:
        """Return kafka-python's settings for a login at a broker."""
        if self.token is not None:
            return {"sasl_mechanism": self.mechanism, "sasl_oauth_token_provider": self.token.provider(address)}
        return {
            "sasl_mechanism": self.mechanism,
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
        }

    def __repr__(self) -> str:
        return f"Login({self.mechanism})"


class Security(msgspec.Struct, frozen=True, kw_only=True):
    """How to connect: with TLS or not, and with which login."""

    protocol: str = "PLAINTEXT"
    login: Login | None = None
    truststore: Path | None = None
    keystore: Path | None = None
    truststore_password: str | None = None
    keystore_password: str | None = None
    key_password: str | None = None
    checks_host: bool = True

    def __repr__(self) -> str:
        return f"Security({self.protocol}, {self.login})"

    @property
    def has_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.protocol.endswith("SSL")

    def tls_context(self) -> ssl.SSLContext:
        """Return the context for TLS. Raises `UsageError` for certificates that cannot be read.

        With a truststore nothing else is trusted, as in Kafka's own clients.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if self.truststore else ssl.create_default_context()
        context.check_hostname = self.checks_host
        for path, key in ((self.truststore, "ssl.truststore.location"), (self.keystore, "ssl.keystore.location")):
            if path is None:
                continue
            try:
                if key.startswith("ssl.truststore"):
                    trust(context, path, self.truststore_password)
                else:
                    show_certificate(context, path, self.keystore_password, self.key_password)
            except UnreadableFile as error:
                raise _unreadable(key, error.got) from None
            except StoreUnreadable as error:
                raise _unreadable(key, str(error), error.next) from None
            except (ssl.SSLError, OSError) as error:
                reason = getattr(error, "reason", None) or error.strerror or type(error).__name__
                raise _unreadable(key, reason) from None
        return context


def security_of(command_config: str | Path | None) -> Security:
    """Return how to connect by a properties file; None: without TLS and login. Raises as `security_from` does."""
    return Security() if command_config is None else security_from(Path(command_config))


def security_from(path: Path) -> Security:
    """Read a properties file. Raises `UsageError` for what Ebbtide does not support."""
    values = _properties(path)
    for key in sorted(values.keys() - settings_at("producer").keys() - settings_at("librdkafka").keys()):
        if near := nearest_words(key, _READ, most=1):
            raise _wrong(key, "a setting that Kafka does not have", near[0])
    protocol = values.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise _wrong("security.protocol", _shown(protocol), ", ".join(PROTOCOLS))
    for store in ("truststore", "keystore"):
        _check_store(values, store)
    algorithm = values.get("ssl.endpoint.identification.algorithm", "https")
    if algorithm.lower() not in ("", "https"):
        raise _wrong("ssl.endpoint.identification.algorithm", HIDDEN, "https, or empty to check no host name")
    return Security(
        protocol=protocol,
        login=_login(values) if protocol.startswith("SASL") else None,
        truststore=_path(values, "ssl.truststore.location"),
        keystore=_path(values, "ssl.keystore.location"),
        truststore_password=values.get("ssl.truststore.password"),
        keystore_password=values.get("ssl.keystore.password"),
        key_password=values.get("ssl.key.password"),
        checks_host=bool(algorithm),
    )


def _properties(path: Path) -> dict[str, str]:
    """Read a file as Kafka's own tools do: bytes are Latin-1, and anything else is escaped."""
    content = read_file(path, what="the client properties", bytes_max=SMALL_BYTES_MAX)
    try:
        return {name: value.strip(_TRIMMED) for name, value in parse(content.decode("latin-1")).items()}
    except UsageError as error:
        error.add_where(f"{_OPTION}: {path}")
        raise


def _login(values: dict[str, str]) -> Login:
    mechanism = values.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism not in MECHANISMS:
        raise _wrong("sasl.mechanism", _shown(mechanism), ", ".join(MECHANISMS))
    jaas = values.get("sasl.jaas.config", "")
    named = {key: _unquote(value) for key, value in _JAAS_VALUE.findall(jaas)}
    if mechanism in (OAUTH, MSK):
        return Login(mechanism=OAUTH, token=_token_source(values, mechanism, named))
    module = next((name for name in _MODULES if name in jaas.split("required")[0]), None)
    if module is None or mechanism not in _MODULES[module]:
        wanted = next(name for name, mechanisms in _MODULES.items() if mechanism in mechanisms)
        other = next((name for name in _KAFKAS_MODULES if name in jaas), "no module that Ebbtide knows")
        shown = other if jaas else "nothing"
        raise _wrong("sasl.jaas.config", shown, f'a {wanted} required username="..." password="...";')
    if not named.get("username") or "password" not in named:
        raise _wrong("sasl.jaas.config", f"{module} without username or password", 'username="..." password="...";')
    return Login(mechanism=mechanism, username=named["username"], password=named["password"])


def _token_source(values: dict[str, str], mechanism: str, named: dict[str, str]) -> TokenSource:
    if mechanism == MSK or _IAM_HANDLER in values.get("sasl.login.callback.handler.class", ""):
        return TokenSource(mechanism=MSK, profile=named.get("awsProfileName", ""), role=named.get("awsRoleArn", ""))
    place = "sasl.oauthbearer.client.credentials"
    source = TokenSource(
        mechanism=OAUTH,
        endpoint=values.get(_ENDPOINT, ""),
        client=values.get(f"{place}.client.id") or named.get("clientId", ""),
        secret=values.get(f"{place}.client.secret") or named.get("clientSecret", ""),
        scope=values.get("sasl.oauthbearer.scope") or named.get("scope", ""),
        subject=named.get("unsecuredLoginStringClaim_sub", ""),
    )
    scheme = source.endpoint.partition("://")[0]
    if scheme not in ("https", "http", "file") and not source.subject:
        got = HIDDEN if source.endpoint else "nothing"
        raise _wrong(_ENDPOINT, got, "https://... of a token endpoint, or file:///... of a token")
    if scheme in ("https", "http") and not (source.client and source.secret):
        allowed = 'OAuthBearerLoginModule required clientId="..." clientSecret="...";'
        raise _wrong("sasl.jaas.config", "no clientId or no clientSecret", allowed)
    return source


def _unquote(value: str) -> str:
    return _JAAS_ESCAPE.sub(_character, value[1:-1]) if value.startswith('"') else value


def _character(found: re.Match[str]) -> str:
    """Return the character of an escape in a JAAS string, as java.io.StreamTokenizer reads it."""
    escaped = found[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else _JAAS_LETTERS.get(escaped, escaped)


def _check_store(values: dict[str, str], store: str) -> None:
    kind = values.get(f"ssl.{store}.type", "").upper()
    if kind not in ("", *STORES):
        raise _wrong(f"ssl.{store}.type", _shown(kind), ", ".join(STORES))
    for key in (f"ssl.{store}.certificates", f"ssl.{store}.certificate.chain", f"ssl.{store}.key"):
        if key in values:
            raise _wrong(key, "certificates within the properties", f"ssl.{store}.location with the path of a PEM file")


def _path(values: dict[str, str], key: str) -> Path | None:
    if not values.get(key):
        return None
    try:
        return Path(values[key]).expanduser()
    except RuntimeError:
        raise UsageError(
            "there is no such user on this host", where=f"{_OPTION}: {key}", got=HIDDEN, allowed="the path of a file"
        ) from None


def _shown(value: str) -> str:
    """Return a value if it is a word of Kafka's."""
    return value if value in _KAFKAS_WORDS else HIDDEN


def _unreadable(key: str, reason: str | None, next: str | None = None) -> UsageError:
    what, allowed = "the certificates cannot be read", "a PEM, PKCS12 or JKS file"
    return UsageError(what, where=f"{_OPTION}: {key}", got=reason, allowed=allowed, next=next)


def _wrong(key: str, got: str, allowed: str) -> UsageError:
    return UsageError("a client property is not supported", where=f"{_OPTION}: {key}", got=got, allowed=allowed)
