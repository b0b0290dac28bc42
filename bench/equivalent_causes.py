"""The mutants of `bench.mutate_causes` that nothing can notice, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

_AT_THE_BOUND = "at the bound itself, the margin for the clocks makes either way right"
_A_LIMIT = "no drawn history comes near this limit of the work"
_ONE_OFFSET = "two records of the metadata log never have one offset"
_NO_ID_0 = "no broker has the id 0: it stands for the clients"

EQUIVALENT: Mapping[str, str] = {
    "answer._agreed: one.guilty or -1 -> without 1": "only the order of sentences follows from it",
    "guilt._may_have_lost_it_as_member: one.within.last_ns >= since_ns -> one.within.last_ns > since_ns": (
        _AT_THE_BOUND
    ),
    "guilt.ask_table: one.metadata_offset < offset -> one.metadata_offset <= offset": _ONE_OFFSET,
    # ---- elections, epochs, leaders, liveness, who wrote
    "elections.Elections.__init__: after.leader >= 0 -> after.leader > 0": _NO_ID_0,
    "elections.Elections.hides_one_before: at_ns >= time -> at_ns > time": _AT_THE_BOUND,
    "epochs.LeaderEpochs._of_epoch: asked > times.min(initial=NEVER) -> asked >= times.min(initial=NEVER)": (
        _AT_THE_BOUND
    ),
    "epochs.LeaderEpochs.may_end_later: self._marks.asked_ns > last.at_ns -> self._marks.asked_ns >= last.at_ns": (
        _AT_THE_BOUND
    ),
    "epochs.LeaderEpochs.had: log.epoch[log.offset == offset] > written -> "
    "log.epoch[log.offset == offset] >= written": (
        "a row of the writer's own epoch there has already shown that the log had the record"
    ),
    "leaders.Leaders.is_nobody_passed_over: before.leader >= 0 -> before.leader > 0": _NO_ID_0,
    "liveness.Liveness._closes: abs(one.at_ns - state.at_ns) < _ONE_BATCH_NS -> "
    "abs(one.at_ns - state.at_ns) <= _ONE_BATCH_NS": _AT_THE_BOUND,
    "liveness.Liveness._next_end: one.ended.last_ns >= from_ns -> one.ended.last_ns > from_ns": _AT_THE_BOUND,
    "liveness.Liveness.died_by: end >= since_ns -> end > since_ns": _AT_THE_BOUND,
    "liveness.Liveness.has_dead_session.is_of: before[-1].at_ns + self.slack < one.ended.first_ns -> "
    "before[-1].at_ns + self.slack <= one.ended.first_ns": _AT_THE_BOUND,
    "liveness.Liveness._is_last_by: state.at_ns < down.started_ns + _BOOTS_NS - self.slack -> "
    "state.at_ns <= down.started_ns + _BOOTS_NS - self.slack": _AT_THE_BOUND,
    "liveness.Liveness.has_dead_session: one.ended.last_ns <= earliest_ns -> one.ended.last_ns < earliest_ns": (
        _AT_THE_BOUND
    ),
    "liveness.Liveness.has_dead_session: life.down.ended.last_ns <= earliest_ns -> "
    "life.down.ended.last_ns < earliest_ns": _AT_THE_BOUND,
    "liveness.Liveness.is_silent: until_ns <= last -> until_ns < last": _AT_THE_BOUND,
    "liveness.Liveness.is_before: state.metadata_offset < event.metadata_offset -> "
    "state.metadata_offset <= event.metadata_offset": _ONE_OFFSET,
    "liveness.Liveness.life_within: within.first_ns <= one.down.started_ns -> "
    "within.first_ns < one.down.started_ns": _AT_THE_BOUND,
    "liveness.Liveness.may_not_know: at_ns - self.slack <= silence.until_ns -> "
    "at_ns - self.slack < silence.until_ns": _AT_THE_BOUND,
    "liveness.Liveness.may_not_know: silence.from_ns <= at_ns + self.slack -> "
    "silence.from_ns < at_ns + self.slack": _AT_THE_BOUND,
    "liveness.Liveness.registrations_around: one.metadata_offset < state.metadata_offset -> "
    "one.metadata_offset <= state.metadata_offset": _ONE_OFFSET,
    "liveness.Liveness.silences: from_ns <= joined[-1][1] -> from_ns < joined[-1][1]": _AT_THE_BOUND,
    "partition._fits: done >= leaders.began_ns[at] -> done > leaders.began_ns[at]": _AT_THE_BOUND,
    "partition._fits: done <= until_ns -> done < until_ns": _AT_THE_BOUND,
    "partition._may_have_all: done > until_ns -> done >= until_ns": _AT_THE_BOUND,
    "partition._may_have_all: members <= following -> members < following": (
        "the leader itself always follows, and is none of these members"
    ),
    "partition._may_have_all: sent <= states[later].at_ns + slack -> sent < states[later].at_ns + slack": _AT_THE_BOUND,
    "partition._may_have_all: sent < max(from_ns, states[at + reign].at_ns + slack) -> "
    "sent <= max(from_ns, states[at + reign].at_ns + slack)": _AT_THE_BOUND,
    "partition._fits: sent <= min(NEVER, leaders.acted_until[at] + slack) -> "
    "sent < min(NEVER, leaders.acted_until[at] + slack)": _AT_THE_BOUND,
    "partition._fits: sent >= from_ns -> sent > from_ns": _AT_THE_BOUND,
    "partition._fits: sent_below[place] <= done + slack -> sent_below[place] < done + slack": _AT_THE_BOUND,
    "partition._fits: there_above[place] + slack >= sent -> there_above[place] + slack > sent": _AT_THE_BOUND,
    "moments._places_of: one.metadata_offset < life.registered.metadata_offset -> "
    "one.metadata_offset <= life.registered.metadata_offset": _ONE_OFFSET,
    "partition.EvidentPartition.has_lost_on_disk: within.last_ns + slack <= states[at].at_ns -> "
    "within.last_ns + slack < states[at].at_ns": _AT_THE_BOUND,
    "partition.EvidentPartition.has_lost_on_disk: states[one].at_ns + slack <= within.first_ns -> "
    "states[one].at_ns + slack < within.first_ns": _AT_THE_BOUND,
    "partition.EvidentPartition.has_lost_on_disk: one.leader < 0 -> one.leader <= 0": _NO_ID_0,
    # ---- histories
    "histories.Walk.histories: if len(found) > HISTORIES_MAX -> never": _A_LIMIT,
    "histories.Walk.histories: len(found) > HISTORIES_MAX -> len(found) >= HISTORIES_MAX": _A_LIMIT,
    "histories.Walk._guilt_after_return: self._committed_ns[one.holder] + self._slack <= "
    "self._states[guilt.election].at_ns -> self._committed_ns[one.holder] + self._slack < "
    "self._states[guilt.election].at_ns": _AT_THE_BOUND,
    "histories.Walk._narrow: self._committed_ns[one.holder] + self._slack <= moment.at_ns -> "
    "self._committed_ns[one.holder] + self._slack < moment.at_ns": _AT_THE_BOUND,
    "histories.Walk._at_first: disk.within.first_ns <= began.at_ns + self._slack -> "
    "disk.within.first_ns < began.at_ns + self._slack": _AT_THE_BOUND,
    "histories.Walk._may_be_there: at_ns + self._slack >= self._asked.sent_ns -> "
    "at_ns + self._slack > self._asked.sent_ns": _AT_THE_BOUND,
    "histories.Walk._fetch: self._asked.sent_ns > until_ns -> self._asked.sent_ns >= until_ns": _AT_THE_BOUND,
    "histories.Walk._may_fetch: since_ns <= until_ns -> since_ns < until_ns": _AT_THE_BOUND,
    "histories.Walk._after_loss: disk.within.last_ns < self._asked.sent_ns -> "
    "disk.within.last_ns <= self._asked.sent_ns": _AT_THE_BOUND,
}
