"""What Java's exceptions come to, without a Java to raise them."""

from __future__ import annotations

import pytest

from analysis.remote.failures import as_ebbtide_error
from ebbtide.errors import HarnessError, UsageError


class FakeJavaError(Exception):
    """Stands for what PySpark raises and for the Java exception that it carries; `said` None: it has no message."""

    def __init__(self, name: str, said: str | None) -> None:
        super().__init__(name)
        self._origin = self
        self._name = name
        self._said = said

    def getClass(self) -> FakeJavaError:
        return self

    def getSimpleName(self) -> str:
        return self._name

    def getMessage(self) -> str | None:
        return self._said

    def getCause(self) -> None:
        return None


@pytest.mark.parametrize(
    ("address", "name", "said"),
    [
        ("hdfs:///runs", "IOException", "Incomplete HDFS URI, no host: hdfs:///runs"),
        ("s3a://", "IllegalArgumentException", "bucket is null/empty"),
    ],
)
def test_an_address_without_a_host_is_a_usage_error(address: str, name: str, said: str) -> None:
    error = as_ebbtide_error(FakeJavaError(name, said), address, "3.4.1")
    assert isinstance(error, UsageError)
    assert error.what == "not an address of a file system"
    assert (error.where, error.got) == (address, f"{name}: {said}")


@pytest.mark.parametrize("said", ["Input/output error", None])
def test_any_other_failure_stays_one(said: str | None) -> None:
    error = as_ebbtide_error(FakeJavaError("IOException", said), "hdfs:///runs", "3.4.1")
    assert isinstance(error, HarnessError)
    assert error.what == "the file system fails"
