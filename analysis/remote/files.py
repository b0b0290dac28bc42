"""Lists and copies files of any Hadoop file system, by the client in Spark's JVM.

No bytes pass through Python: the JVM copies between the file system and this host's disk. Every
call has a deadline, since some clients try for a quarter of an hour to reach a server that is down. A Java exception
becomes one error that a person can act on.
"""

from __future__ import annotations

import concurrent.futures
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException

from ebbtide.errors import EbbtideError, HarnessError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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


T = TypeVar("T")

ANSWER_S = 60.0
"""How long a call may take: a failover of a file system's master is over by then."""
SLOWEST_BYTES_S = 128 * 1024
"""A copy slower than this counts as stopped."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A listed file or folder; `size` is in bytes, 0 for a folder."""

    name: str
    is_folder: bool
    size: int


class RemoteFiles:
    """Calls on file systems by address; each raises `EbbtideError`s, never Java's own.

    A file system that did not answer is not asked again: each of its thousands of records would
    wait for the deadline.
    """

    def __init__(self, spark: SparkSession) -> None:
        context = spark.sparkContext
        assert context._jvm is not None
        self._jvm: Any = context._jvm
        self._conf = context._jsc.hadoopConfiguration()
        self._worker = ThreadPoolExecutor(1, "remote files")
        self._lost: dict[str, NoAnswer] = {}

    def close(self) -> None:
        """End the thread; a thread that still waits for an answer ends with Spark's JVM."""
        self._worker.shutdown(wait=False)

    def qualify(self, address: str) -> str:
        """Return an address as Spark spells it, with the default authority if it has none."""
        whole = address if urlsplit(address).path else address + "/"
        return self._call(address, lambda fs, path: str(fs.makeQualified(path).toString()), at=whole)

    def stat(self, address: str) -> Entry | None:
        """Return what is at an address; None if nothing is there."""

        def stat_path(fs: Any, path: Any) -> Entry | None:
            try:
                return _entry(fs.getFileStatus(path))
            except Thrown as error:
                if is_missing(error):
                    return None
                raise

        return self._call(address, stat_path)

    def list_folder(self, folder: str) -> list[Entry]:
        """Return what a folder holds, by name.

        Raises `UsageError` for a name that would lead out of it.
        """
        entries = self._call(folder, lambda fs, path: [_entry(status) for status in fs.listStatus(path)])
        for entry in entries:
            if entry.name in ("", ".", "..") or any(bad in entry.name for bad in "/\\\0"):
                raise UsageError("a file's name would lead out of its folder", where=folder, got=repr(entry.name))
        return sorted(entries, key=lambda entry: entry.name)

    def fetch(self, address: str, to: Path, size: int = 0) -> None:
        """Copy a file, or a folder with all in it, to `to`, which does not exist yet.

        `size`: about its number of bytes.
        """
        to.parent.mkdir(parents=True, exist_ok=True)
        self._call(address, lambda fs, path: fs.copyToLocalFile(False, path, self._local_path(to), True), size=size)

    def put(self, source: Path, address: str) -> None:
        """Put a file or folder of this host at `address`, replacing what was there.

        No reader ever sees half of it.
        """
        folder, _, name = address.rpartition("/")
        token = uuid.uuid4().hex
        part, old = f"{folder}/.{name}.{token}.part", f"{folder}/.{name}.{token}.old"

        def replace(fs: Any, path: Any) -> None:
            try:
                hadoop = self._jvm.org.apache.hadoop.fs
                here = hadoop.FileSystem.getLocal(self._conf)
                hadoop.FileUtil.copy(here, self._local_path(source), fs, self._path(part), False, self._conf)
                if fs.exists(path):
                    self._rename(fs, path, self._path(old))
                self._rename(fs, self._path(part), path)
                fs.delete(self._path(old), True)
            except Exception:
                fs.delete(self._path(part), True)
                raise

        size = sum(path.stat().st_size for path in (source, *source.rglob("*")) if path.is_file())
        self._call(address, replace, size=size)

    def remove(self, address: str) -> None:
        """Remove a file, or a folder with all in it; a missing one is not an error."""
        self._call(address, lambda fs, path: fs.delete(path, True))

    def check_writable(self, folder: str) -> None:
        """Raise `HarnessError` unless a file can be made in a folder."""
        probe = f"{folder}/.ebbtide.{uuid.uuid4().hex}"

        def create_and_delete(fs: Any, path: Any) -> None:
            fs.create(path).close()
            fs.delete(path, False)

        try:
            self._call(folder, create_and_delete, at=probe)
        except NoAnswer:
            raise
        except EbbtideError as error:
            raise HarnessError(
                "the record cannot be written to, and its judgement is kept in it",
                where=folder,
                got=error.got,
                allowed="a folder with write permission",
                next=f"hadoop fs -get {folder} .    (then analyze the copy)",
            ) from None

    def _rename(self, fs: Any, path: Any, to: Any) -> None:
        if not fs.rename(path, to):
            raise HarnessError("the file system did not rename a file", where=path.toString(), got=to.toString())

    def _call(self, address: str, work: Callable[[Any, Any], T], *, at: str | None = None, size: int = 0) -> T:
        """Return the result of `work` on the file system and the path `at`.

        Errors name `address`.
        """
        if (lost := self._lost.get(self._authority(address))) is not None:
            raise NoAnswer(address, lost.got or "")

        def call() -> T:
            try:
                path = self._path(at or address)
                return work(path.getFileSystem(self._conf), path)
            except Thrown as error:
                hadoop = self._jvm.org.apache.hadoop.util.VersionInfo.getVersion()
                raise as_ebbtide_error(error, address, str(hadoop)) from None

        timeout_s = ANSWER_S + size / SLOWEST_BYTES_S
        try:
            return self._worker.submit(call).result(timeout_s)
        except concurrent.futures.TimeoutError:
            self._worker.shutdown(wait=False)
            self._worker = ThreadPoolExecutor(1, "remote files")
            lost = NoAnswer(address, f"no answer within {timeout_s:.0f} s")
        except NoAnswer as error:
            lost = error
        self._lost[self._authority(address)] = lost
        raise lost

    def _authority(self, address: str) -> str:
        parts = urlsplit(address)
        return f"{parts.scheme}://{parts.netloc}"

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)

    def _local_path(self, path: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._jvm.java.io.File(str(path.absolute())).toURI())


def _entry(status: Any) -> Entry:
    is_folder = bool(status.isDirectory())
    return Entry(name=status.getPath().getName(), is_folder=is_folder, size=0 if is_folder else status.getLen())
