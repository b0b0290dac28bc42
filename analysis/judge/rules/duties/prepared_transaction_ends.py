"""KIP-98: a transaction whose commit its coordinator has written down ends, with a marker in each of its partitions.

Once the producers have ended, the coordinators are asked for the states of the transactions, for 40 s at most. A
timeout of the coordinator may begin to abort one as late as that, but only a producer begins a commit. A second is
plenty for markers; ten are allowed. Judged once each fault is healed, where each partition has its whole ISR.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.judge.rules.clause import Clause
from analysis.judge.rules.duties.duty import PATIENCE, SECOND_NS, Duty, finding_on_duties, healed_ns
from analysis.judge.rules.findings import Finding
from analysis.judge.rules.judged import Judged
from analysis.record.record import Record

_ALLOWED_S = 10
_COMMITTING = "PrepareCommit"


def _check(judged: Judged) -> Finding:
    doubt = "a step took records from a log" if judged.record.log_losses else None
    return finding_on_duties(judged.record, _duties(judged.record), doubt=doubt)


def _duties(record: Record) -> Iterator[Duty]:
    asked, healed, readings = record.manifest.final_transactions, healed_ns(record), record.clocks.readings
    if asked is None or healed is None or not readings or record.manifest.gone_topics or not _is_whole(record):
        return
    # Nothing says when the coordinators were asked, only that it was before the end. All had to be well until then.
    since_ns, until_ns = max(healed, readings[0].at_ns), readings[-1].at_ns
    for name, state in asked.states.items():
        about = {"transactional_id": name, "state": state, "waited_s": asked.waited_s}
        if state == _COMMITTING and asked.waited_s >= PATIENCE * _ALLOWED_S:
            within_ns = max(_ALLOWED_S * SECOND_NS, (until_ns - since_ns) // PATIENCE)
            yield Duty(about=about, since_ns=since_ns, within_ns=within_ns)
        elif state not in (None, _COMMITTING):
            yield Duty(about=about, since_ns=since_ns, within_ns=0, kept_ns=since_ns)


def _is_whole(record: Record) -> bool:
    """Return whether each partition, also those of Kafka's own topics, has a leader and its whole ISR at the end."""
    last = [states[-1] for states in record.timeline.partitions.values() if states]
    return all(state.leader >= 0 and {*state.isr} == {*state.replicas} for state in last)


RULE = Clause(
    module=__name__,
    doc=__doc__,
    kip="KIP-98",
    check=_check,
    needed="never",
    compares_times=True,
    unknown_when=(
        "a transaction was being committed for 30 s after the producers had ended, and the metadata log stood still "
        "meanwhile, or a log lost records. Only where each partition has its whole ISR at the end"
    ),
    example="""
        The coordinator still says at the end that it is about to commit the transaction, after 40 s.
        setting: transactional prepared=40
        clock: from=0 to=99
        gives: transactional_id=id state=PrepareCommit
    """,
)
