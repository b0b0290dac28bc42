"""The tokens of SASL OAUTHBEARER and AWS_MSK_IAM, from the client properties that Java's clients take.

| token | properties |
|---|---|
| of a file | `sasl.oauthbearer.token.endpoint.url=file:///path` |
| for a client id | the same with an https address; `clientId`, `clientSecret`, `scope` in sasl.jaas.config |
| unsecured, for tests | `unsecuredLoginStringClaim_sub` in sasl.jaas.config |
| of AWS MSK | `sasl.mechanism=AWS_MSK_IAM`, and `awsProfileName` or `awsRoleArn` in sasl.jaas.config, or neither |

A token is asked for at each connection. No message shows it.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
from kafka.net.sasl.oauth import AbstractTokenProvider

from ebbtide.errors import UsageError
from ebbtide.untrusted.files import read_text

OAUTH, MSK = "OAUTHBEARER", "AWS_MSK_IAM"
_BYTES_MAX = 1 << 20
_ANSWER_S = 10.0
_LIVES_S = 3600
_SESSION = "ebbtide"
_REGION = re.compile(r"\.([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com")


class TokenSource(msgspec.Struct, frozen=True, kw_only=True):
    """Where a token comes from; `secret` is in no message. Of an unsecured token only `subject` is set."""

    mechanism: str
    endpoint: str = ""
    client: str = ""
    secret: str = ""
    scope: str = ""
    subject: str = ""
    profile: str = ""
    role: str = ""

    def __repr__(self) -> str:
        return f"TokenSource({self.mechanism})"

    def token(self, address: str) -> str:
        """Return a token for a broker. Raises `UsageError`."""
        if self.mechanism == MSK:
            return self._of_aws(address)
        if self.subject:
            return _unsecured(self.subject)
        if self.endpoint.startswith("file:"):
            path = Path(urllib.parse.unquote(urllib.parse.urlsplit(self.endpoint).path))
            return read_text(path, what="the token's file").strip()
        return self._of_endpoint()

    def provider(self, address: str) -> AbstractTokenProvider:
        """Return what kafka-python asks for a token."""
        return _Provider(self, address)

    def _of_endpoint(self) -> str:
        """Ask for a token with the client's credentials, as RFC 6749 (4.4) says."""
        login = base64.b64encode(f"{self.client}:{self.secret}".encode()).decode()
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        asked = urllib.request.Request(
            self.endpoint,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {login}", "Accept": "application/json"},
        )
        try:
            with urllib.request.build_opener(_NoRedirect).open(asked, timeout=_ANSWER_S) as answer:
                content = json.loads(answer.read(_BYTES_MAX))
        except urllib.error.HTTPError as error:
            error.close()
            raise self._refused(f"HTTP {error.code}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._refused(str(getattr(error, "reason", "")) or type(error).__name__) from None
        token = content.get("access_token") if isinstance(content, dict) else None
        if not isinstance(token, str):
            raise self._refused("an answer without access_token")
        return token

    def _refused(self, got: str) -> UsageError:
        return UsageError(
            "the token endpoint gives no token",
            where=urllib.parse.urlsplit(self.endpoint).hostname,
            got=got,
            allowed="an OAuth 2.0 endpoint that knows the client id and secret",
        )

    def _of_aws(self, address: str) -> str:
        try:
            from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
        except ImportError:
            raise UsageError(
                "a login by AWS IAM needs the library aws-msk-iam-sasl-signer-python",
                where="sasl.mechanism",
                got=MSK,
                next="pip install 'ebbtide[msk]'",
            ) from None
        found = _REGION.search(address)
        region = found[1] if found else os.environ.get("AWS_REGION", "")
        if not region:
            raise UsageError("the AWS region is not known", where=address, next="AWS_REGION=us-east-1 ebbtide ...")
        try:
            if self.role:
                token, _ = Signer.generate_auth_token_from_role_arn(region, self.role, _SESSION)
            elif self.profile:
                token, _ = Signer.generate_auth_token_from_profile(region, self.profile)
            else:
                token, _ = Signer.generate_auth_token(region)
        except Exception as error:  # of botocore, whose kinds are many
            raise UsageError(
                "AWS gives no token", where=address, got=f"{type(error).__name__}", next="aws sts get-caller-identity"
            ) from None
        return str(token)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: the secret would go to the other host."""

    def redirect_request(self, *_: Any) -> None:
        return None


class _Provider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, source: TokenSource, address: str) -> None:
        self._source, self._address = source, address

    def token(self) -> str:
        return self._source.token(self._address)


def _unsecured(subject: str) -> str:
    """Return a token without a signature, which brokers accept for tests alone."""
    now = int(time.time())
    parts = ({"alg": "none"}, {"sub": subject, "iat": now, "exp": now + _LIVES_S})
    encoded = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in parts]
    return ".".join([*encoded, ""])
