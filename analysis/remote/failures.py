"""Turns a Hadoop file system's Java exceptions into one error a person can act on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from ebbtide.errors import EbbtideError, HarnessError, UsageError

Thrown = (Py4JJavaError, CapturedException)
"""The types of a Java exception in Python: PySpark wraps some of them."""

_SAID_MAX = 300
_CAUSES_MAX = 16

_NO_SUCH_SYSTEM = {"UnsupportedFileSystemException"}
_NO_CLASS = {"ClassNotFoundException", "NoClassDefFoundError"}
_NO_ADDRESS = {"URISyntaxException", "IllegalArgumentException"}
_NO_HOST = "Incomplete HDFS URI, no host"
"""hdfs says this of an address without a host, where no default is set.

The exception has no class of its own.
"""
_FORBIDDEN = {"AccessControlException", "AccessDeniedException"}
_SILENT = {
    "ConnectException",
    "ConnectTimeoutException",
    "NoRouteToHostException",
    "SocketTimeoutException",
    "StandbyException",
    "UnknownHostException",
}
_MISSING = {"FileNotFoundException", "UnknownStoreException"}


class NoAnswer(HarnessError):
    """A file system cannot be reached."""

    def __init__(self, address: str, got: str) -> None:
        super().__init__(
            "the file system does not answer",
            where=address,
            got=got,
            next="check that its servers run, and what core-site.xml under $HADOOP_CONF_DIR says of it",
        )


def is_missing(error: Exception) -> bool:
    """Return whether an exception says that there is no such file."""
    return any(name in _MISSING for name, _ in _chain(error))


def as_ebbtide_error(error: Exception, address: str, hadoop: str) -> EbbtideError:
    """Return the error of a call on `address`.

    `hadoop` is the release of Spark's own client; other jars must have the same release.
    """
    chain = list(_chain(error))
    names = {name for name, _ in chain}
    if names & _NO_SUCH_SYSTEM:
        return UsageError(
            "no file system has this scheme",
            where=address,
            got=_first_of(chain, _NO_SUCH_SYSTEM),
            allowed="what Spark's Hadoop client knows, such as hdfs://, viewfs:// and, with its jar, s3a://",
        )
    if names & _NO_CLASS:
        return UsageError(
            "the jar of this file system is not on Spark's class path",
            where=address,
            got=_first_of(chain, _NO_CLASS),
            next="name it in spark-defaults.conf under $SPARK_CONF_DIR, for s3a:// "
            f"`spark.jars.packages org.apache.hadoop:hadoop-aws:{hadoop}`",
        )
    if names & _FORBIDDEN:
        return UsageError("the file system does not allow this", where=address, got=_first_of(chain, _FORBIDDEN))
    if names & _SILENT:
        return NoAnswer(address, _first_of(chain, _SILENT))
    if names & _MISSING:
        return UsageError("no such file", where=address, got=_first_of(chain, _MISSING))
    if names & _NO_ADDRESS or any(text.startswith(_NO_HOST) for _, text in chain):
        return UsageError(
            "not an address of a file system",
            where=address,
            got=_first_of(chain, names & _NO_ADDRESS or names),
            allowed="such as hdfs://HOST/FOLDER or s3a://BUCKET/FOLDER",
        )
    return HarnessError("the file system fails", where=address, got=_first_of(chain, names))


def _first_of(chain: list[tuple[str, str]], names: set[str]) -> str:
    """Return the first exception of those names, in a line."""
    name, text = next((name, text) for name, text in chain if name in names)
    return f"{name}: {text}"[:_SAID_MAX] if text else name


def _chain(error: Exception) -> Iterator[tuple[str, str]]:
    """Yield a Java exception and its causes: simple name and first line of each."""
    exception: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    for _ in range(_CAUSES_MAX):
        if exception is None:
            return
        yield exception.getClass().getSimpleName(), (exception.getMessage() or "").strip().partition("\n")[0]
        exception = exception.getCause()
