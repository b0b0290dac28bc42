"""Java programs of Ebbtide: one process formats several nodes, and the compiler is where pyspark is."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.runtime import java_programs
from cluster.runtime.java_programs import program_for_all, statuses_of
from ebbtide.errors import HarnessError


def test_the_program_gets_each_nodes_log_and_the_arguments_of_storage_tool() -> None:
    program = program_for_all({Path("/r/one.log"): ["format", "--config", "a b"], Path("/r/two.log"): ["format"]})
    source, name, *words = program.arguments
    assert Path(source).read_text().count(f"public class {name} ") == 1
    assert words == ["/r/one.log", "3", "format", "--config", "a b", "/r/two.log", "1", "format"]
    assert [jar.name.rpartition("-")[0] for jar in program.jars] == ["janino", "commons-compiler"]


@pytest.mark.parametrize(
    ("exit_code", "statuses"),
    [
        (0, {7: 0, 8: 0, 9: 0}),
        (2, {7: 0, 8: 1, 9: 0}),
        (4, {7: 4, 8: 4, 9: 4}),
        (-9, {7: -9, 8: -9, 9: -9}),
    ],
)
def test_the_exit_code_is_the_number_of_the_node_that_failed(exit_code: int, statuses: dict[int, int]) -> None:
    assert statuses_of([7, 8, 9], exit_code) == statuses


def test_the_installed_pyspark_brings_the_compiler() -> None:
    jars = java_programs.compiler_jars()
    assert [jar.name.rpartition("-")[0] for jar in jars] == ["janino", "commons-compiler"]
    assert all(jar.is_file() for jar in jars)


def test_a_missing_compiler_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_programs, "find_spec", lambda name: None)
    with pytest.raises(HarnessError, match="compiler of Spark is missing") as caught:
        java_programs.compiler_jars()
    assert caught.value.allowed == "janino, commons-compiler"
