"""The clusters of plain Kafka processes that bench.advise_clusters advises about."""

from __future__ import annotations

from typing import Any

import msgspec

RF_3 = {"orders": ([[1, 2, 3], [2, 3, 1]], {"min.insync.replicas": "2"})}
RF_5 = {"orders": ([[1, 2, 3, 4, 5]], {"min.insync.replicas": "3"})}
MIXED = {
    "one": ([[1], [2]], {"min.insync.replicas": "1"}),
    "three": ([[1, 2, 3]], {"min.insync.replicas": "1"}),
    "unclean": ([[1, 2, 3]], {"min.insync.replicas": "2", "unclean.leader.election.enable": "true"}),
    "flushed": ([[1, 2, 3]], {"min.insync.replicas": "2", "flush.messages": "1"}),
}
RF_2 = {"pairs": ([[1, 2]], {"min.insync.replicas": "1"})}
ONE_AND_THREE = {name: MIXED[name] for name in ("one", "three")}
RACKS = {1: "a", 2: "a", 3: "b", 4: "b"}
TWO_RACKS = "RF 3, min ISR 2, four brokers in two racks"
ELR = "eligible.leader.replicas.version"


class AdvisedCluster(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster to advise about; `dead` brokers are killed before."""

    name: str
    kafka: str
    what: str
    topics: dict[str, Any] = msgspec.field(default_factory=lambda: RF_3)
    brokers: int = 3
    features: dict[str, int] = {}
    racks: dict[int, str] = {}
    secure: bool = False
    dead: tuple[int, ...] = ()


CLUSTERS = (
    AdvisedCluster(name="341", kafka="3.4.1", what="RF 3, min ISR 2"),
    AdvisedCluster(name="341-mixed", kafka="3.4.1", what="RF 1; RF 3 with min ISR 1", topics=ONE_AND_THREE),
    AdvisedCluster(name="391", kafka="3.9.1", what="RF 3, min ISR 2"),
    AdvisedCluster(
        name="391-mv8", kafka="3.9.1", what="metadata.version 8; RF 3, min ISR 2", features={"metadata.version": 8}
    ),
    AdvisedCluster(name="391-rf5", kafka="3.9.1", what="RF 5, min ISR 3", topics=RF_5, brokers=5),
    AdvisedCluster(
        name="391-mixed",
        kafka="3.9.1",
        what="RF 1; RF 3 with min ISR 1; unclean elections; flush.messages=1",
        topics=MIXED,
    ),
    AdvisedCluster(name="391-below", kafka="3.9.1", what="RF 3, min ISR 2, two brokers down", dead=(2, 3)),
    AdvisedCluster(name="391-rf2", kafka="3.9.1", what="RF 2, min ISR 1", topics=RF_2, brokers=2),
    AdvisedCluster(name="391-racks", kafka="3.9.1", what=TWO_RACKS, brokers=4, racks=RACKS),
    AdvisedCluster(name="402", kafka="4.0.2", what="ELR off; RF 3, min ISR 2"),
    AdvisedCluster(name="402-elr", kafka="4.0.2", what="ELR on; RF 3, min ISR 2", features={ELR: 1}),
    AdvisedCluster(name="431", kafka="4.3.1", what="RF 3, min ISR 2"),
    AdvisedCluster(name="431-rf5", kafka="4.3.1", what="RF 5, min ISR 3", topics=RF_5, brokers=5),
    AdvisedCluster(
        name="431-mixed",
        kafka="4.3.1",
        what="RF 1; RF 3 with min ISR 1; unclean elections; flush.messages=1",
        topics=MIXED,
    ),
    AdvisedCluster(name="431-secure", kafka="4.3.1", what="SASL and TLS; RF 3, min ISR 2", secure=True),
    AdvisedCluster(name="431-below", kafka="4.3.1", what="RF 3, min ISR 2, two brokers down", dead=(2, 3)),
    AdvisedCluster(name="431-rf2", kafka="4.3.1", what="RF 2, min ISR 1", topics=RF_2, brokers=2),
    AdvisedCluster(name="431-racks", kafka="4.3.1", what=TWO_RACKS, brokers=4, racks=RACKS),
)
