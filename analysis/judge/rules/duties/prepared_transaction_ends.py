"""KIP-98: a transaction whose commit its coordinator has written down ends, with a marker in each of its partitions.

Once the producers have ended, the coordinators are asked for the states of the transactions, for 40 s at most. A
timeout of the coordinator may begin to abort one as late as that, but only a producer begins a commit. Markers take
less than a second, and 30 s if a request for them was lost just before. Judged once each fault is healed, where each
partition has its whole ISR, and as many members as its min ISR asks for. The controllers' batches in `raw/` show that
the host was alive. All that must be so since the final read began, in which the coordinators are asked first.
"""

from __future__ import annotations

from collections.abc import Iterator

from analysis.causes.evidence import NEVER
from analysis.judge.history.markers import batches_in
from analysis.judge.rules.clause import Clause
from analysis.judge.rules.duties.duty import PATIENCE, SECOND_NS, Duty, finds_duties, healed_ns, unfenced_since
from analysis.record.record import Record
from analysis.record.timeline import MILLISECOND_NS
from ebbtide.logs.segments import METADATA_FOLDER
from ebbtide.record.files import RAW_DIR
from ebbtide.record.topic_lives import deletion_times

_ALLOWED_S = 13
_COMMITTING = "PrepareCommit"


@finds_duties
def _check(record: Record) -> Iterator[Duty]:
    asked, healed = record.manifest.final_transactions, healed_ns(record)
    brokers, final_read_s = record.manifest.topology.brokers, record.manifest.timings_s.get("final read", 0.0)
    unfenced = [at for broker in brokers if (at := unfenced_since(record, broker)) is not None]
    last = [states[-1] for states in record.timeline.partitions.values()]
    min_isr = record.protocol.configured_min_isr
    is_whole = all(
        one.leader >= 0 and {*one.isr} == {*one.replicas} and len(one.isr) >= (min_isr(one.topic, NEVER) or 0)
        for one in last
    )
    gone = record.manifest.gone_topics or deletion_times(record.proven_steps or ())
    if asked is None or healed is None or gone or not is_whole or len(unfenced) < len(brokers):
        return
    since_ns = max([healed, *unfenced, *(one.at_ns for one in last)])
    for name, state in asked.states.items():
        about = {"transactional_id": name, "state": state, "waited_s": asked.waited_s}
        if state == _COMMITTING and asked.waited_s >= PATIENCE * _ALLOWED_S:
            wrote = _controllers_wrote(record)
            until_ns = max([*wrote, *(one.at_ns for one in record.clocks.readings)], default=0)
            # So long all must have been well. Where something changed after the final read began, nobody knows it.
            well_ns = max(until_ns - since_ns, int(final_read_s * SECOND_NS))
            within_ns = max(_ALLOWED_S * SECOND_NS, well_ns // PATIENCE)
            doubt = "a step took records from a log" if record.log_losses else None
            yield Duty(about=about, since_ns=since_ns, within_ns=within_ns, controllers_ns=wrote, doubt=doubt)
        elif state not in (None, _COMMITTING):
            yield Duty(about=about, since_ns=since_ns, within_ns=0, kept_ns=since_ns)


def _controllers_wrote(record: Record) -> list[int]:
    """Return when (ns) the controllers wrote to the metadata log, by the times of its batches."""
    folders = [record.folder / RAW_DIR / f"controller-{node}" for node in record.manifest.topology.controllers]
    times_ms = {batch.base_timestamp_ms for one in folders for batch in batches_in(one / METADATA_FOLDER)}
    return [record.clocks.time_of(at * MILLISECOND_NS).at_ns for at in sorted(times_ms)]


RULE = Clause(
    kip="KIP-98",
    check=_check,
    needed="never",
    compares_times=True,
    unknown_when=(
        "a transaction was being committed for 39 s after the producers had ended, and the metadata log stood still or "
        "brokers or the ISR changed meanwhile, or a log lost records. Only where each partition has its whole ISR"
    ),
    example="""
        The coordinator still says at the end that it is about to commit the transaction, after 40 s.
        setting: transactional prepared=40
        clock: from=0 to=99
        gives: transactional_id=id state=PrepareCommit
    """,
)
