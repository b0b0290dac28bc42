"""Upgrades that Kafka forbids, or that change nothing, are refused when the file is read."""

from __future__ import annotations

import pytest
from scenario_problems import problems

RAISE = 'step = "set-feature"\nfeature = "metadata.version"\nlevel = '


def upgrade(to: str, target: str = "brokers", more: str = "") -> str:
    return f'step = "upgrade"\nto = "{to}"\ntarget = "{target}"\n{more}'


def found(*steps: str, kafka: str = "3.9.1", cluster: str = "") -> dict[str, str]:
    settings = "".join(f"cluster.{line}\n" for line in cluster.splitlines())
    return problems(*steps, kafka=kafka, cluster=settings, strict=True)


def test_upgrades_back_and_forth_are_possible_while_no_level_is_raised() -> None:
    assert found(upgrade("4.3.1", "controllers"), upgrade("4.3.1"), upgrade("3.9.1"), upgrade("4.2.1")) == {}


@pytest.mark.parametrize(
    ("steps", "where"),
    [
        ([upgrade("3.9.1")], "steps[0].to"),
        ([upgrade("4.3.1", "broker(1)"), upgrade("4.3.1", "broker(1)")], "steps[1].to"),
        ([upgrade("4.3.1"), upgrade("4.3.1", "broker(2)")], "steps[1].to"),
    ],
)
def test_an_upgrade_to_the_release_that_nodes_run_already_is_refused(steps: list[str], where: str) -> None:
    assert "same release" in found(*steps)[where]


def test_an_upgrade_of_the_rest_is_possible() -> None:
    assert found(upgrade("4.3.1", "broker(1)"), upgrade("4.3.1")) == {}
    assert found(upgrade("4.3.1", "leader(t-0)"), upgrade("4.3.1")) == {}


def test_what_is_no_release_is_refused() -> None:
    assert "not a Kafka release" in found(upgrade("4.3"))["steps[0].to"]


def test_a_release_that_does_not_know_a_finalised_level_is_refused() -> None:
    assert "does not know a feature level" in found(upgrade("3.8.1"))["steps[0].to"]
    assert "does not know a feature level" in found(upgrade("4.3.1"), kafka="3.4.1", cluster=LEVEL_6)["steps[0].to"]
    assert found(upgrade("4.3.1"), kafka="3.4.1") == {}


LEVEL_6 = 'features = { "metadata.version" = 6 }'


def test_a_level_that_was_raised_forbids_the_way_back() -> None:
    raised = (upgrade("4.3.1", "controllers"), upgrade("4.3.1"), RAISE + "30")
    assert "does not know a feature level" in found(*raised, upgrade("3.9.1"))["steps[3].to"]
    assert found(*raised, upgrade("3.9.1", more="expect_refusal = true")) == {}


def test_a_level_that_a_node_does_not_know_yet_is_refused() -> None:
    only_brokers = found(upgrade("4.3.1"), RAISE + "30")
    assert "a node does not know yet" in only_brokers["steps[1].level"]
    assert found(upgrade("4.3.1"), f'{RAISE}30\nexpect_error = "INVALID_UPDATE_VERSION"') == {}
    assert found(upgrade("4.3.1"), f"{RAISE}30\noptional = true") == {}


def test_a_level_that_no_release_has_is_one_mistake_and_not_two() -> None:
    assert list(found(upgrade("4.3.1", "controllers"), upgrade("4.3.1"), RAISE + "99")) == ["steps[2].level"]


def test_a_cluster_is_formed_on_another_release_than_it_runs() -> None:
    assert found(kafka="4.3.1", cluster='formed_on = "3.9.1"') == {}
    assert "same release" in found(kafka="4.3.1", cluster='formed_on = "4.3.1"')["cluster.formed_on"]
    newer = found(kafka="3.9.1", cluster='formed_on = "4.3.1"')["cluster.formed_on"]
    assert "does not know" in newer
    assert "transaction.version 0; " in newer
    assert "(name a lower level in cluster.features)" in newer
    assert "expect_refusal" not in newer
    assert "not a Kafka release" in found(cluster='formed_on = "4"')["cluster.formed_on"]


def test_the_levels_of_a_cluster_are_those_of_the_release_that_forms_it() -> None:
    formed = 'formed_on = "3.9.1"\nfeatures = { "metadata.version" = '
    assert found(kafka="4.3.1", cluster=formed + "20 }") == {}
    assert "cannot be formatted" in found(kafka="4.3.1", cluster=formed + "30 }")["cluster.features"]


def test_a_step_that_names_roles_takes_them_beside_one_that_names_a_release() -> None:
    hold = 'step = "hold-request"\ntarget = "broker(1)"\napi = "Fetch"\nto = ["broker(2)"]\noptional = true'
    assert found(hold, upgrade("4.3.1")) == {}
    assert "steps[0].to" in found(upgrade("4.3.1").replace('"4.3.1"', "4"))


DYNAMIC = 'controllers = 3\nquorum = "dynamic"'
LOWER = RAISE + "20"


def test_a_dynamic_quorum_has_no_way_back_to_a_release_before_3_9() -> None:
    # A lower metadata.version opens the way back to a static quorum only.
    assert found(LOWER, upgrade("3.8.1")) == {}
    refused = found(LOWER, upgrade("3.8.1"), cluster=DYNAMIC)
    assert list(refused) == ["steps[1].to"]
    assert "kraft.version = 1" in refused["steps[1].to"]
    assert "Kafka 3.9.0 or later for a dynamic quorum" in refused["steps[1].to"]
    assert found(LOWER, upgrade("3.8.1", more="expect_refusal = true"), cluster=DYNAMIC) == {}
    assert found(upgrade("4.3.1", "controllers"), cluster=DYNAMIC) == {}


def test_a_cluster_with_a_dynamic_quorum_is_not_formed_for_a_release_before_3_9() -> None:
    refused = found(kafka="3.8.1", cluster=DYNAMIC + '\nformed_on = "3.9.1"')
    assert "kraft.version = 1" in refused["cluster.formed_on"]
