"""The mutants of the protocol's rules: each is one change; a vector or a test notices it, and nothing else changes."""

from __future__ import annotations

from importlib import import_module

import pytest

from analysis.spec import VARIANTS, cluster_for
from analysis.spec.partition import Partition
from bench import mutate_spec
from bench.equivalent_rules import EQUIVALENT
from bench.mutate_spec import MODULES, Vectors, in_place, main
from bench.spec_mutants import spec_mutants_of


def test_each_module_has_mutants_with_names_of_their_own_and_each_equivalent_mutant_still_exists() -> None:
    listed = {module: [mutant.name for mutant in spec_mutants_of(module)] for module in MODULES}
    names = {module: {*found} for module, found in listed.items()}
    assert all(names.values())
    assert {module: len(found) for module, found in names.items()} == {
        module: len(found) for module, found in listed.items()
    }
    assert set(EQUIVALENT) <= set().union(*names.values())


def test_a_mutant_changes_the_running_rule_and_leaves_with_the_block() -> None:
    (mutant,) = [
        one
        for one in spec_mutants_of("elr_41")
        if "may_elect_last_known" in one.name and one.became == "the rule before"
    ]
    fenced = Partition((1, 2, 3), frozenset(), last_known=(1,))
    cluster = cluster_for("4.3.1", {}, (1, 2, 3))._replace(unfenced=frozenset({2}))
    newest = VARIANTS["elr_43"]
    assert newest.unfence(fenced, cluster, 2).partition.leader == -1
    with in_place(import_module("analysis.spec.elr_41"), mutant.tree):
        assert newest.unfence(fenced, cluster, 2).partition.leader == 1
        assert Vectors().notices() is not None
    assert newest.unfence(fenced, cluster, 2).partition.leader == -1


def test_what_a_test_notices_is_killed_and_what_none_notices_survives(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["protocol", "--only", "fence: cluster.unfenced - {broker} -> cluster.unfenced alone"]
    monkeypatch.setattr(mutate_spec, "TESTS", mutate_spec.TESTS[:1])
    monkeypatch.setattr(Vectors, "notices", lambda _: None)
    assert main(arguments) == 0
    assert "killed     test_rules.py::test_a_fence_takes_the_broker_from" in capsys.readouterr().out
    assert main([*arguments, "--vectors-alone"]) == 1
    assert capsys.readouterr().out.startswith("SURVIVED")
