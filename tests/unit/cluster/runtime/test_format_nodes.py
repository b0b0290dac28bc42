"""One Java process formats several nodes: what it is asked, and whose failure its exit code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.runtime.java_programs import program_for_all, statuses_of


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
