"""The Java compiler of Spark: it is where pyspark is, and a host without it says what is missing."""

from __future__ import annotations

import pytest

from cluster.runtime import java_programs
from ebbtide.errors import HarnessError


def test_the_installed_pyspark_brings_the_compiler() -> None:
    jars = java_programs.compiler_jars()
    assert [jar.name.rpartition("-")[0] for jar in jars] == ["janino", "commons-compiler"]
    assert all(jar.is_file() for jar in jars)


def test_a_missing_compiler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_programs, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="compiler of Spark is missing") as caught:
        java_programs.compiler_jars()
    assert caught.value.allowed == "janino, commons-compiler"
