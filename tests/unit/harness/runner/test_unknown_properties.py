"""A property that Kafka does not know: it ends a run, and is only noted where the scenario is that of a record."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from cluster.host.bridge import address_of
from cluster.runtime.properties import plan_cluster
from ebbtide.errors import UsageError
from ebbtide.scenario import catalogue
from ebbtide.scenario.model import ClusterSpec
from harness.runner.draws import Draws
from harness.runner.property_check import unknown_properties_error
from harness.runner.session import Session
from workloads.config import UnknownProperty

LOST = UnknownProperty(role="broker", name="num.io.thread", near="num.io.threads")
OLD = UnknownProperty(role="controller", name="zookeeper.connect", near="")


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Makes a session of the scenario `healthy` whose cluster is up, and knows neither of the two."""
    workload = Mock(**{"create_topics.return_value": (LOST, OLD)})
    monkeypatch.setattr("harness.runner.session.Workload", lambda **_: workload)
    monkeypatch.setattr(Session, "_show", lambda _: None)
    healthy = catalogue.find("healthy")
    scenario = msgspec.structs.replace(healthy, kafka=("4.3.1",))
    nodes = plan_cluster(scenario.cluster, address_of).nodes
    runtime = Mock(nodes=nodes, **{"data_dir.side_effect": lambda node: tmp_path / str(node)})

    def make(*, allow_unknown_properties: bool) -> tuple[Session, Mock, Mock]:
        display = Mock()
        made = Session(
            scenario,
            Draws(assignments={}),
            runtime,
            "run",
            tmp_path,
            display,
            allow_unknown_properties=allow_unknown_properties,
        )
        return made, display, workload

    return make


def test_it_ends_a_run_before_its_clients_start(session: Any) -> None:
    made, _, workload = session(allow_unknown_properties=False)
    with pytest.raises(UsageError, match=r"Kafka does not know num.io.thread, zookeeper.connect, and ignores them"):
        made.join()
    workload.start.assert_not_called()
    assert made.ignored == ()


def test_in_the_scenario_of_a_record_it_is_noted_and_ends_nothing(session: Any) -> None:
    made, display, workload = session(allow_unknown_properties=True)
    made.join()
    workload.start.assert_called_once_with()
    told = [call.args[0] for call in display.note.call_args_list]
    assert "Kafka does not know num.io.thread, zookeeper.connect, and ignores them" in told
    assert made.ignored == (
        "cluster.broker_properties.num.io.thread",
        "cluster.controller_properties.zookeeper.connect",
    )


def test_the_error_says_where_each_one_stands_and_what_may_have_been_meant() -> None:
    error = unknown_properties_error([LOST, OLD])
    assert error.where == "cluster.broker_properties.num.io.thread, cluster.controller_properties.zookeeper.connect"
    assert error.allowed == "properties of this release (did you mean num.io.threads?)"
    assert unknown_properties_error([OLD]).what == "Kafka does not know zookeeper.connect, and ignores it"
    assert unknown_properties_error([OLD]).allowed == "properties of this release"


def test_a_cluster_without_them_keeps_the_others_of_both_roles() -> None:
    both = {"a": "1", "b": "2"}
    cluster = ClusterSpec(brokers=4, broker_properties=both, controller_properties=both)
    left = cluster.without_properties({"cluster.broker_properties.a", "cluster.controller_properties.b"})
    assert (left.broker_properties, left.controller_properties) == ({"b": "2"}, {"a": "1"})
    assert left.brokers == 4
