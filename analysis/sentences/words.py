"""Says every figure and state of a verdict and of its record in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from analysis.record.files import Missing
from analysis.record.record import Record
from ebbtide.record.files import ANOMALIES_DIR, LOGS_DIR, RAW_DIR, RecordFolder
from ebbtide.record.manifest import ACKS_SPELLED, Manifest
from ebbtide.record.outcomes import lost_counts, outcome_word
from ebbtide.record.verdict import (
    Cause,
    PropertyResult,
    PropertyStatus,
    RecordedElection,
    Verdict,
    acks_0_summary,
    count_acked_by_brokers,
    counts_by_kind,
)
from ebbtide.releases.known_releases import shown_path
from ebbtide.rules.table import (
    ANOMALIES,
    CLAUSES,
    COMMIT_BACK,
    COMMIT_LOST,
    COMMITS_KEPT,
    HW_REGRESSION,
    NO_COMMITTED_LOSS,
    NO_HW_REGRESSION,
)
from ebbtide.scenario.words import CLIENTS

_STATUS_ORDER: tuple[PropertyStatus, ...] = ("violated", "unknown", "holds", "not-exercised")
COMMIT_FATES = {COMMIT_LOST: "not given back", COMMIT_BACK: "served, and served no more"}
"""What became of the commits of each kind."""

MEANING: dict[Cause, str] = {
    "unclean-recovery": "allowed: an unclean recovery, which Ebbtide carried out, chose a replica without it (KIP-966)",
    "unclean-election": "allowed: an unclean election let a replica from outside the ISR lead (KIP-704, KIP-966)",
    "last-replica-standing": "allowed without ELR: the last ISR member lost its unflushed log and led again (KIP-966)",
    "last-known-leader": "allowed: at least min ISR disks lost the records, and the last known leader led (KIP-966)",
    "beyond-tolerance": "allowed: the disk of every replica lost the records (KIP-966)",
    "stale-isr-join": "allowed before KIP-903: an ISR join of an earlier broker epoch was accepted",
    "uncommitted-at-failover": "allowed: acks=0 or 1, never committed when the leader changed",
    "unexplained": "not allowed: no rule of the protocol explains it",
}

UNKNOWN = "?"


def target(record: Record) -> str | None:
    """Return the release that ran, with the feature levels that were asked for.

    For example `4.3.1:eligible.leader.replicas.version=0`. After an upgrade it is the way there: `3.9.1 then 4.3.1`.
    Of a watched cluster it says what is not known of the release.
    """
    manifest = record.manifest
    if manifest.kafka is None:
        return None
    levels = {} if isinstance(record.scenario, Missing) else record.scenario.cluster.features
    return shown_path(manifest.named_path, is_assumed=manifest.kafka_assumed, levels=levels)


def releases(manifest: Manifest) -> str:
    """Return which node ran which releases; empty where all ran the same one."""
    by_path: dict[str, list[int]] = {}
    for node, each in manifest.releases.items():
        by_path.setdefault(" then ".join(one.kafka for one in each), []).append(int(node))
    return "; ".join(f"{nodes(tuple(sorted(ids)))}: {path}" for path, ids in by_path.items())


def combined_nodes(manifest: Manifest) -> str:
    """Return which nodes are broker and controller in one process; empty where none is."""
    both = {*manifest.topology.brokers} & {*manifest.topology.controllers}
    return f"{members(tuple(both))}: broker and controller in one process" if both else ""


def release_text(target: str) -> str:
    """Return the result of `target` as a sentence has it: `4.3.1 (eligible.leader.replicas.version=0)`."""
    kafka, _, levels = target.partition(":")
    return f"{kafka} ({levels})" if levels else kafka


def headline(verdict: Verdict, kafka: str | None, *, sends: bool) -> str:
    """Return the verdict in a sentence.

    `kafka` is the result of `target`; `sends`: the record says what was acked (`has_sends`).
    """
    committed = sum(loss.count for loss in verdict.losses if loss.committed)
    uncommitted = sum(loss.count for loss in verdict.losses if not loss.committed)
    acked = f"{count_acked_by_brokers(verdict.counts, verdict.coverage):,} acked records"
    causes = ", ".join(
        f"{cause}: no rule of the protocol allows it" if cause == "unexplained" else cause
        for cause in sorted({loss.cause for loss in verdict.losses if loss.committed})
    )
    not_known = is_undecided(verdict, NO_COMMITTED_LOSS)
    if committed:
        which = f"{committed:,} of them committed" if uncommitted else "all of them committed"
        count = f"{'at least ' if not_known else ''}{committed + uncommitted:,}"
        # A release whose patch is not known has asides, and a sentence goes on behind them.
        release = release_text(kafka) + ("," if "," in kafka else "") if kafka else "of an unknown release"
        seen = f"Kafka {release} lost {count} of {acked}, {which} ({causes})"
    elif verdict.sent_nothing:
        seen = "the run ended before it sent a record"
    elif not sends:
        seen = "it is not known how many records were acked or lost"
    elif not_known:
        seen = f"it is not known how many of {acked} are lost, or by what cause"
    elif uncommitted:
        seen = f"{uncommitted:,} of {acked} are lost, none of them committed"
    elif verdict.outcome == "inconclusive":
        seen = f"no loss was seen among {acked}"
    else:
        seen = f"none of {acked} is lost"
    first = outcome_word(verdict).replace("-", " ").capitalize()
    acks_0 = acks_0_summary(verdict.coverage)
    more = f"; {acks_0}" if acks_0 else ""
    return f"{first}: {seen}{more}{_other_kinds(verdict)}."


def _other_kinds(verdict: Verdict) -> str:
    """Return what the headline says of other kinds of anomalies, as clauses that end a sentence."""
    counts, found = counts_by_kind(verdict.anomalies), ""
    for kind in ANOMALIES.values():
        if kind.headline is not None and (count := counts.get(kind.name)):
            causes = {str(one.cause) for one in verdict.attributed if kind.is_loss and one.kind == kind.name}
            why = f" ({', '.join(sorted(causes))})" if causes else ""
            found += f"; {count:,} {kind.headline[count > 1]}{why}"
    return found


def has_sends(folder: RecordFolder, verdict: Verdict) -> bool:
    """Return whether it is known what was sent, if anything was.

    Without sends, or before they are judged, the counts are 0.
    """
    if verdict.counts.sends > 0 or verdict.sent_nothing:
        return True
    return bool(verdict.properties) and folder.has_table("sends")


def send_counts(record: Record, verdict: Verdict) -> tuple[tuple[str, str], ...]:
    """Return how many records were sent, acked by a broker, failed and unknown, each with its name.

    `?` where the record has no sends to count, and may have lost them.
    """
    counts = verdict.counts
    known = has_sends(record.folder, verdict)
    return tuple(
        (name, f"{count:,}" if known else UNKNOWN)
        for name, count in (
            ("sent", counts.sends),
            ("acked", count_acked_by_brokers(counts, verdict.coverage)),
            ("failed", counts.failed),
            ("unknown", counts.unknown),
        )
    )


def count_lost_acks_0(verdict: Verdict) -> str:
    """Return how many records sent with acks=0 the final read lacks.

    `-` where none were sent so.
    """
    sent = verdict.coverage.get("acked-with-acks-0", 0)
    gone = verdict.coverage.get("acks-0-gone")
    return f"{UNKNOWN if gone is None else f'{gone:,}'} of {sent:,}" if sent else "-"


def count_lost(verdict: Verdict) -> int | None:
    """Return how many records are lost, with any acks; None where that is undecided."""
    count = sum(lost_counts(verdict))
    decided = verdict.sent_nothing or (bool(verdict.properties) and not is_undecided(verdict, NO_COMMITTED_LOSS))
    return count if decided or count else None


def count_lost_text(verdict: Verdict, *, committed: bool) -> str:
    """Return how many committed or uncommitted records are lost.

    Where that could not be decided: at least how many, or `?`.
    """
    lost = lost_counts(verdict)
    count = lost.committed if committed else lost.uncommitted
    if is_undecided(verdict, NO_COMMITTED_LOSS) and not verdict.sent_nothing:
        return f"at least {count:,}" if count else UNKNOWN
    return UNKNOWN if count_lost(verdict) is None else f"{count:,}"


def no_losses(verdict: Verdict) -> str:
    """Return the text that replaces an empty loss table."""
    shown = count_lost_text(verdict, committed=True)
    if shown == "0":
        return "None."
    return "Not known." if shown == UNKNOWN else f"{shown.capitalize()} records were lost by a cause that is not known."


def gloss(verdict: Verdict, clause: PropertyResult) -> str:
    """Return what `holds` means beside lost records or a HW that went back.

    Empty where there is nothing to explain.
    """
    lost = any(loss.committed for loss in verdict.losses)
    seen = {
        NO_COMMITTED_LOSS: lost,
        NO_HW_REGRESSION: bool(verdict.regressions),
        COMMITS_KEPT: bool(verdict.commits),
    }.get(clause.name, False)
    return CLAUSES[clause.name].allowed if seen and clause.status == "holds" else ""


def no_regressions(verdict: Verdict) -> str:
    """Return the text that replaces an empty table of HWs that went back."""
    return "Not known." if count_regressions(verdict) == UNKNOWN else "None was seen to go back."


def count_regressions(verdict: Verdict) -> str:
    """Return how many answers had a lower HW than one before.

    `?` where that is not known of the whole run.
    """
    count = sum(one.count for one in verdict.anomalies if one.kind == HW_REGRESSION)
    is_open = not verdict.properties or is_undecided(verdict, NO_HW_REGRESSION)
    return UNKNOWN if is_open and not count else f"{count:,}"


def count_lost_commits(verdict: Verdict) -> str:
    """Return how many acked commits were lost; `-` where the record has none, `?` where that is not known."""
    status = next((one.status for one in verdict.properties if one.name == COMMITS_KEPT), None)
    if status is None:
        return "-"
    lost = counts_by_kind(verdict.anomalies).get(COMMIT_LOST, 0)
    return UNKNOWN if status == "unknown" and not lost else f"{lost:,}"


def by_status(verdict: Verdict) -> list[PropertyResult]:
    """Return the results of the clauses, the worst first."""
    return sorted(verdict.properties, key=lambda one: _STATUS_ORDER.index(one.status))


def clause_text(clause: PropertyResult) -> str:
    """Return what a clause says; empty for a clause of another version."""
    return CLAUSES[clause.name].text.replace("`", "") if clause.name in CLAUSES else ""


def is_undecided(verdict: Verdict, clause: str) -> bool:
    """Return whether a clause is unknown for the run."""
    return any(one.name == clause and one.status == "unknown" for one in verdict.properties)


def acks(value: int) -> str:
    """Return the acks as a producer's configuration has them."""
    return ACKS_SPELLED.get(value, str(value))


def election(value: RecordedElection | None) -> str:
    """Return an election in a few words."""
    if value is None:
        return "-"
    return f"{value}, metadata offset {value.metadata_offset}"


def write_back(manifest: Manifest) -> str:
    """Return under which write-back of dirty pages power was lost; `-` if it is not known."""
    if manifest.write_back != "kernel":
        return "held: a disk loses all that was not fsynced" if manifest.write_back == "held" else "-"
    set_to = ", ".join(f"{name} {value}" for name, value in manifest.host.items() if name.startswith("vm."))
    return f"by the kernel's own settings{f' ({set_to})' if set_to else ''}"


def members(ids: Sequence[int], empty: str = "[]") -> str:
    """Return a set of brokers in ascending order.

    Kafka keeps the ISR in an order of its own, which means nothing.
    """
    return f"[{', '.join(str(one) for one in sorted(ids))}]" if ids else empty


def nodes(ids: Sequence[int]) -> str:
    """Return the nodes that a step hit."""
    return ", ".join("clients" if one == CLIENTS else str(one) for one in ids) or "-"


def offset_s(at_ns: int | None, start_ns: int | None) -> str:
    """Return a time as seconds since the start of the run."""
    if at_ns is None or start_ns is None:
        return "-"
    return f"{(at_ns - start_ns) / 1e9:+.3f} s"


def duration(start_ns: int | None, end_ns: int | None) -> str:
    """Return how long something took."""
    return "-" if start_ns is None or end_ns is None else f"{(end_ns - start_ns) / 1e9:.1f} s"


def clock_sentence(record: Record) -> str:
    """Return what is known of the wall clock during the run. Raises `UsageError` for a damaged clock.jsonl."""
    clocks = record.clocks
    if not clocks.is_watched:
        return "not watched: only times that contradict each other would show that it was set"
    steps = [after.lead_ns - before.lead_ns for before, after in clocks.steps()]
    if not steps:
        return "watched: nobody set it"
    ends = [("forward", max(steps)), ("back", -min(steps))]
    moves = [f"{way} by up to {by / 1e9:,.3f} s" for way, by in ends if by > 0]
    times = "once" if len(steps) == 1 else f"{len(steps):,} times"
    return f"watched: it was set {times}, {' and '.join(moves)}; the times of the run do not depend on it"


def timings(manifest: Manifest) -> str:
    """Return how long each phase of the run took, in their order."""
    return _phases(manifest.timings_s)


def longest_phases(manifest: Manifest) -> str:
    """Return how long the three longest phases of the run took, in their order."""
    longest = sorted(manifest.timings_s, key=lambda phase: -manifest.timings_s[phase])[:3]
    return _phases({phase: took_s for phase, took_s in manifest.timings_s.items() if phase in longest})


def _phases(timings_s: Mapping[str, float]) -> str:
    return ", ".join(f"{phase} {took_s:.1f} s" for phase, took_s in timings_s.items()) or "-"


def without_brackets(value: object) -> str:
    """Return a small nested value without JSON's outer brackets.

    For example `isr partition t-0, size 1`.
    """
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {without_brackets(one)}" for key, one in value.items() if one is not None)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(without_brackets(one) for one in value)}]"
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"


def commands(record: str) -> tuple[tuple[str, str], ...]:
    """Return what to type to inspect the record, with what each command shows.

    `record` is a path or an address.
    """
    ls = "hadoop fs -ls" if "://" in record else "ls"
    return (
        (f"ebbtide analyze {record} --json", "judge again from the record and print verdict.json"),
        (f"{ls} {record}/{ANOMALIES_DIR} {record}/{LOGS_DIR}", "every anomaly as Parquet, and each node's own log"),
        (f"{ls} {record}/{RAW_DIR}", "the metadata log and the replicas' segments as they were on disk"),
    )
