"""Reads truststores and keystores as Java's clients take them: PEM, PKCS12 and JKS.

What a file is, its first bytes say: Java, too, reads a PKCS12 file where the type says JKS. PKCS12 is read by the
library `cryptography` (the extra `stores`). A JKS is converted by the `keytool` of a Java runtime, because Java alone
knows its encryption well.
"""

from __future__ import annotations

import os
import re
import shutil
import ssl
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.scratch import STORES, scratch_folder
from ebbtide.untrusted.files import SMALL_BYTES_MAX, read_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_JKS, _JCEKS, _DER = b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce", b"\x30"
_CERTIFICATE = re.compile("-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_KEYTOOL_S = 30.0
_PASSWORD = "EBBTIDE_STORE_PASSWORD"


class StoreUnreadable(Exception):
    """Why a store cannot be read; `next` is what to type."""

    def __init__(self, why: str, next: str | None = None) -> None:
        self.next = next
        super().__init__(why)


def trust(context: ssl.SSLContext, path: Path, password: str | None) -> None:
    """Let a context trust the certificates of a store. Raises `StoreUnreadable`, `UnreadableFile` and `SSLError`."""
    content = _content(path)
    if content.startswith((_JKS, _JCEKS)):
        # Without a password, keytool lists a JKS as Java reads it: unchecked.
        found = _CERTIFICATE.findall(_keytool("-list", "-rfc", "-keystore", str(path), password=password))
    elif content.startswith(_DER):
        from cryptography.hazmat.primitives.serialization import Encoding

        store = _pkcs12(content, password)
        several = [store.cert, *store.additional_certs] if store.cert is not None else store.additional_certs
        found = [one.certificate.public_bytes(Encoding.PEM).decode("ascii") for one in several]
    else:
        found = [content.decode("utf-8", "replace")]
    if not found:
        raise StoreUnreadable("no certificate is in it")
    # As Java does, which trusts a certificate in the store whoever issued it.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata="\n".join(found))


def show_certificate(context: ssl.SSLContext, path: Path, password: str | None, key_password: str | None) -> None:
    """Let a context show the certificate of a store, by its key. Raises as `trust` does.

    Python reads keys from files alone, so a binary store is one, encrypted and of this user, for that moment.
    """
    content = _content(path)
    if not content.startswith((_JKS, _JCEKS, _DER)):
        context.load_cert_chain(path, None, lambda: key_password or "")
        return
    with scratch_folder(STORES) as folder:
        if content.startswith((_JKS, _JCEKS)):
            content = _converted(path, folder / "store.p12", password, key_password)
        store = _pkcs12(content, password)
        if store.key is None or store.cert is None:
            raise StoreUnreadable("no private key with its certificate is in it")
        from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat

        once = os.urandom(32).hex()
        certificates = [store.cert, *store.additional_certs]
        pem = store.key.private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(once.encode())
        ) + b"".join(one.certificate.public_bytes(Encoding.PEM) for one in certificates)
        with open(os.open(folder / "key.pem", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(pem)
        context.load_cert_chain(folder / "key.pem", None, lambda: once)


def _content(path: Path) -> bytes:
    return read_file(path, what="the store", bytes_max=SMALL_BYTES_MAX)


def _pkcs12(content: bytes, password: str | None) -> PKCS12KeyAndCertificates:
    try:
        from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
    except ImportError:
        raise StoreUnreadable(
            "a PKCS12 store needs the library cryptography", "pip install 'ebbtide[stores]'"
        ) from None
    try:
        return load_pkcs12(content, None if password is None else password.encode())
    except (ValueError, TypeError):
        raise StoreUnreadable("its password is wrong or missing, or it is damaged") from None


def _converted(path: Path, into: Path, password: str | None, key_password: str | None) -> bytes:
    """Return a JKS keystore as PKCS12, under the same password."""
    words = ["-importkeystore", "-noprompt", "-srckeystore", str(path), "-destkeystore", str(into)]
    words += ["-deststoretype", "PKCS12", "-srcstorepass:env", _PASSWORD, "-deststorepass:env", _PASSWORD]
    key = {}
    if key_password not in (None, password):
        # keytool takes the password of a key for one key alone.
        listed = _keytool("-list", "-keystore", str(path), password=password)
        alias = re.search(r"^(.+), [^,]+, [^,]+, PrivateKeyEntry", listed, re.MULTILINE)
        if alias is None:
            raise StoreUnreadable("no private key is in it")
        words += ["-srcalias", alias[1], "-srckeypass:env", f"{_PASSWORD}_KEY", "-destkeypass:env", _PASSWORD]
        key = {f"{_PASSWORD}_KEY": key_password or ""}
    _keytool(*words, password=password, named=False, more=key)
    return into.read_bytes()


def _keytool(*words: str, password: str | None, named: bool = True, more: dict[str, str] | None = None) -> str:
    """Return what keytool prints; passwords are in its environment, and never in its command line."""
    program = shutil.which("keytool")
    if program is None:
        raise StoreUnreadable(
            "a JKS store needs keytool, which a Java runtime has",
            "install a Java runtime, or elsewhere: keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 "
            "-deststoretype PKCS12",
        )
    asked = ["-storepass:env", _PASSWORD] if named and password is not None else []
    try:
        done = subprocess.run(
            [program, *words, *asked],
            env={**os.environ, **(more or {}), _PASSWORD: password or ""},
            input="\n",
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_KEYTOOL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise StoreUnreadable(f"keytool gave no answer ({type(error).__name__})") from None
    if done.returncode:
        raise StoreUnreadable("its password is wrong or missing, or it is damaged")
    return done.stdout
