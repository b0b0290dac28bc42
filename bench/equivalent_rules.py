"""The mutants of `bench.mutate_spec` that nothing can notice, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_SAME_VALUE = "the value at the bound is the one that there is"
_LEADER_IN_ISR = "a leader is in the ISR, so whoever is elected uncleanly was no leader"
_NO_ELR = "no variant without the ELR has a member in it"

EQUIVALENT: Mapping[str, str] = {
    "builder.Builder.build: (adding or removing) and (after := self.completed_reassignment(isr, replicas, adding, "
    "removing, target.min_isr)) -> without 1": "without a reassignment, ISR and replicas are those that there are",
    "builder.Builder.build: unclean and leader >= 0 and (node != partition.leader) -> without 2": _LEADER_IN_ISR,
    "builder.Builder.build: unclean and leader >= 0 and (node != partition.leader) -> without 3": _LEADER_IN_ISR,
    "builder.Builder.build: target.recovering is not None and target.recovering != partition.recovering -> without 2": (
        _SAME_VALUE
    ),
    "builder.Builder.elect_leader: False -> True (2)": "this election is of the leader that there is",
    "builder.Builder.completed_reassignment: removing and (not (left and kept)) -> without 1": (
        "without an ISR, no added replica is in it"
    ),
    "builder.Builder.provisional_elr: if not target.elr -> never": (
        "who leaves an ISR is not live, and without the feature the ELR is emptied"
    ),
    "builder.Builder.may_elect_last_known: False -> True": _NO_ELR,
    "builder.Builder.last_known_elr: not target.elr or unclean or len(isr) >= target.min_isr -> without 2": (
        "its callers say that no election was unclean"
    ),
    "leader.LeaderRules.may_join: follower.fetch_epoch is not None and follower.fetch_epoch in (NO_EPOCH, "
    "follower.metadata_epoch) -> without 1": "a metadata cache always has an epoch",
    "leader.LeaderRules.advance_hw: follower.leo < hw -> follower.leo <= hw": _SAME_VALUE,
    "leader.LeaderRules.advance_hw: hw > leader.hw -> hw >= leader.hw": _SAME_VALUE,
    "protocol.Protocol: assigning_knows_elr -> False": _NO_ELR,
    "protocol.Protocol.unregister: self.has_elr and broker in partition.elr -> without 1": _NO_ELR,
    "protocol.Protocol.alter_partition: after.leader_epoch != partition.leader_epoch and "
    "after.leader != request.leader -> without 1": "another leader has another epoch",
    "protocol.Protocol.set_min_isr: cluster.topic_min_isr or topic -> without 1": (
        "here the topic has none of its own, or gets one"
    ),
    "unclean_recovery.choose_leader: False -> True": "its caller always says it",
    "elr_40.Elr40.remember: not isr and isr != partition.isr and (partition.last_known != (partition.leader,)) -> "
    "without 3": _SAME_VALUE,
    "kip966.Kip966._with_leader: True -> False": "this variant keeps LastKnownElr at an unclean election, too",
}
