"""Steps that ask Kafka for something: they touch the cluster only, and nothing undoes them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Literal

from ebbtide.scenario.steps.kind import TARGET, Kind

AdminKind = Literal["reassign", "elect", "set-config", "set-feature", "delete-topic", "unregister"]

_EXPECT = ("expect_error",)
_admin = partial(Kind, family="admin", takes=_EXPECT)

ADMIN: Mapping[AdminKind, Kind] = {
    "reassign": _admin(
        does="asks for other replicas (AlterPartitionReassignments)",
        proof="a newer partition record with these replicas (less those being removed); "
        "a cancelled one: with nothing to add or remove",
        needs=("partition",),
        takes=("replicas", "cancel", *_EXPECT),
        either=("replicas", "cancel"),
        weight=0.8,
    ),
    "elect": _admin(
        does="asks for an election (ElectLeaders)",
        proof="Kafka's yes, and a newer partition record with a new leader epoch; "
        "preferred: with the first replica as leader",
        needs=("partition", "type"),
        weight=0.6,
    ),
    "set-config": _admin(
        does="changes a config (IncrementalAlterConfigs)",
        proof="a newer config record with the value, or its deletion",
        needs=("resource", "config"),
        takes=("value", "delete", *_EXPECT),
        either=("value", "delete"),
        weight=0.8,
    ),
    "set-feature": _admin(
        does="finalises a feature level (UpdateFeatures)",
        proof="a newer feature level record",
        needs=("feature", "level"),
        weight=0.3,
    ),
    "delete-topic": _admin(
        does="deletes a topic (DeleteTopics)",
        proof="the topic's partitions are gone from the metadata log",
        needs=("topic",),
        weight=0.1,
    ),
    "unregister": _admin(
        does="ends a broker's registration (UnregisterBroker)",
        proof="a newer record that ends the registration",
        needs=TARGET,
        only_brokers="only a broker can be unregistered",
        weight=0.3,
    ),
}
