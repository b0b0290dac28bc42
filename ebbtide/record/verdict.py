"""verdict.json, version 1: the judgement of one run.

Readers outside this project rely on it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from ebbtide.errors import ExitCode, UsageError
from ebbtide.record.files import RecordFolder, write_atomically
from ebbtide.record.judged_by import JudgedBy
from ebbtide.record.manifest import RECORD_VERSION, Manifest
from ebbtide.record.own_producers import OwnProducer
from ebbtide.rules.table import HW_REGRESSION, LOST
from ebbtide.scenario.model import AllowedCause, WriteBack
from ebbtide.shown_text import plural
from ebbtide.untrusted.files import UnreadableFile, read_file
from ebbtide.untrusted.values import decode_json

VERDICT = "verdict.json"

Outcome = Literal["as-predicted", "contradicted", "inconclusive"]
PredictionKind = Literal["made", "none"]
PropertyStatus = Literal["holds", "violated", "unknown", "not-exercised"]
Needed = Literal["always", "if-hw-predicted", "never"]
Cause = Literal[AllowedCause, "unexplained"]
LossEvent = Literal["disk", "election"]

EXIT_OF_OUTCOME: dict[Outcome, ExitCode] = {
    "as-predicted": ExitCode.AS_PREDICTED,
    "contradicted": ExitCode.CONTRADICTED,
    "inconclusive": ExitCode.INCONCLUSIVE,
}


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of sends by status, and rows of polls."""

    sends: int = 0
    acked: int = 0
    failed: int = 0
    unknown: int = 0
    polls: int = 0


class AnomalyCount(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of anomaly on one partition.

    It has at most 20 examples; all are in anomalies/.
    """

    kind: str
    topic: str
    partition: int
    count: int
    examples: list[dict[str, Any]] = []


def count_acked_by_brokers(counts: Counts, facts: Mapping[str, int]) -> int:
    """Return how many records a broker acked, by the coverage facts.

    `counts.acked` also counts records sent with acks=0.
    """
    return counts.acked - facts.get("acked-with-acks-0", 0)


def acks_0_summary(facts: Mapping[str, int]) -> str | None:
    """Return a clause on the records sent with acks=0; None if there are none."""
    sent = facts.get("acked-with-acks-0", 0)
    if not sent:
        return None
    gone = facts.get("acks-0-gone")
    count = f"{gone:,} are gone" if gone is not None else "it is not known how many are gone"
    return f"of {sent:,} sent with acks=0, which no broker answers, {count}"


def counts_by_kind(anomalies: Iterable[AnomalyCount]) -> Mapping[str, int]:
    """Return how many anomalies of each kind there are, over all partitions.

    Kinds without an anomaly are left out.
    """
    counts: Counter[str] = Counter()
    for one in anomalies:
        counts[one.kind] += one.count
    return counts


class RecordedElection(msgspec.Struct, frozen=True, kw_only=True):
    """An election in the metadata log: the record that set this leader and epoch."""

    metadata_offset: int
    leader: int
    leader_epoch: int

    def __str__(self) -> str:
        """Return the election in words: `broker 2, leader epoch 5`."""
        return f"broker {self.leader}, leader epoch {self.leader_epoch}"


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """Lost records of one partition that share acks, commitment, cause and election.

    - `acks`: -1 is all.
    - `oldest_s`: how old the oldest of them was when it was lost, in seconds from its ack (RPO); null: not known.
    - `lost_by`: the event that lost it. `disk`: a power loss or another fault took it from the disk of the broker
      that the guilty election made leader. `election`: the guilty election itself.
    """

    topic: str
    partition: int
    acks: int
    committed: bool
    cause: Cause
    count: int
    first_offset: int
    last_offset: int
    election: RecordedElection | None = None
    oldest_s: float | None = None
    lost_by: LossEvent | None = None


class Regression(msgspec.Struct, frozen=True, kw_only=True):
    """The HW that leaders served went from `from` back to `to`, under `leader_epoch`."""

    topic: str
    partition: int
    from_: int = msgspec.field(name="from")
    to: int
    leader_epoch: int
    cause: Cause
    election: RecordedElection | None = None


class CommitLoss(msgspec.Struct, frozen=True, kw_only=True):
    """Commits of one group and partition that it did not get back, by one election of its coordinator's partition.

    - `kind`: commit-lost or commit-back.
    - `offset` is the last of the committed offsets, `served` what the coordinator said then; null: nothing.
    - `election` is one of the partition `offsets_partition` of `__consumer_offsets`.
    """

    kind: str
    group: str
    topic: str
    partition: int
    count: int
    offset: int
    served: int | None = None
    offsets_partition: int
    cause: Cause
    election: RecordedElection | None = None


class Blamed(msgspec.Struct, frozen=True, kw_only=True):
    """Anomalies of one kind and partition that an election or a disk may explain, by cause and election.

    - `group`: whose commits or copies they are; null for other kinds.
    - `first` and `last` are the lowest and the highest offset; of a HW that went back, what it went back to and from.
    - `cause`: null if it is not known. `why` says it in words.
    """

    kind: str
    topic: str
    partition: int
    group: str | None = None
    count: int
    first: int | None = None
    last: int | None = None
    committed: bool
    cause: Cause | None = None
    election: RecordedElection | None = None
    why: str


class Outage(msgspec.Struct, frozen=True, kw_only=True):
    """How long one kind of service was missing on one partition, in seconds.

    `longest_s` is the longest spell, from `from_ns` to `to_ns` (null where there was none). `total_s` and `spells` are
    the sum and the number of all spells. `at_least`: the last spell has no end in the record, so that it may have
    lasted longer.
    """

    longest_s: float
    total_s: float
    spells: int
    from_ns: int | None = None
    to_ns: int | None = None
    at_least: bool = False


class Unavailability(msgspec.Struct, frozen=True, kw_only=True):
    """The time without service of one partition.

    - `no_leader`: the metadata log says that the partition had no leader.
    - `no_ack`: acks=all records waited, and none was acked. It is exact from 0.1 s on: 0.1 also stands for less, and
      `total_s` and `spells` leave out shorter spells.
    - `no_service`: clients asked brokers for the partition, and none answered: no offset, no record and no ack. It
      leaves out spells of at most 2 s.
    - `unknown` says for each of the three that is null why it is not known.
    """

    topic: str
    partition: int
    no_leader: Outage | None = None
    no_ack: Outage | None = None
    no_service: Outage | None = None
    unknown: dict[str, str] = {}


class PropertyResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one clause, checked on the evidence; `kip` is e.g. `KIP-966`."""

    name: str
    kip: str
    status: PropertyStatus
    evidence: list[Any] = []


class RuleFile(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the user (`--rule`) that a record was judged with: its name, its file's name, and the file's digest.

    `needed`: when a run cannot end as predicted while the rule is unknown.
    """

    name: str
    file: str
    sha256: str
    needed: Needed = "always"


NOTHING_SENT = "no record was sent before that, so there is nothing to judge"
"""The start of the judge's reason for a run that ended before it sent a record."""


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The judgement of one run; `why` has a sentence for each reason for the outcome.

    - `prediction`: "made", or "none" if the scenario predicts nothing for the run, or only what no run can break.
    - `loss_allowed`: whether the protocol allows the committed losses; null: there are none, or it is not known.
    - `blamed`: all anomalies that may have a cause. `losses`, `regressions` and `commits` show those whose cause is
      known, with what is special to them. Code that treats all kinds alike reads `attributed`.
    - `write_back`: under which write-back of dirty pages power was lost, as in the manifest.
    - `rule_files`: the rules of the user that the record was judged with; left out if there are none.
    - `protocol`: the rules of the protocol that the record was judged by; left out if its release is not known.
    - `own_producers`: what became of what the user's own producers sent; left out if that was not recorded.
    """

    record_version: int = RECORD_VERSION
    run_id: str
    outcome: Outcome
    prediction: PredictionKind = "made"
    loss_allowed: bool | None = None
    why: list[str] = []
    counts: Counts = Counts()
    write_back: WriteBack | None = None
    anomalies: list[AnomalyCount] = []
    losses: list[Loss] = []
    regressions: list[Regression] = []
    commits: list[CommitLoss] = []
    blamed: list[Blamed] = []
    unavailable: list[Unavailability] = []
    properties: list[PropertyResult] = []
    coverage: dict[str, int] = {}
    rule_files: list[RuleFile] | msgspec.UnsetType = msgspec.UNSET
    protocol: JudgedBy | msgspec.UnsetType = msgspec.UNSET
    own_producers: list[OwnProducer] | msgspec.UnsetType = msgspec.UNSET

    def judged_by(self, kafka: str) -> str:
        """Return by which rules the run on `kafka` was judged, if these are not its own; else nothing."""
        return "" if self.protocol is msgspec.UNSET else self.protocol.in_words(kafka)

    @property
    def own_rules(self) -> list[RuleFile]:
        """The rules of the user that the record was judged with."""
        return [] if self.rule_files is msgspec.UNSET else self.rule_files

    @property
    def own_losses(self) -> list[OwnProducer]:
        """The user's own producers whose acked records are gone."""
        return [] if self.own_producers is msgspec.UNSET else [one for one in self.own_producers if one.lost]

    @property
    def own_figure(self) -> str:
        """What became of the records of own producers; empty: their traffic was not recorded."""
        if self.own_producers is msgspec.UNSET:
            return ""
        lost = sum(one.lost for one in self.own_losses)
        acked = plural(sum(one.acked for one in self.own_producers), "acked record")
        return f"{acked}, {f'{lost:,}' if lost else 'none'} lost"

    @property
    def first_own_loss(self) -> OwnProducer | None:
        """The loss of an own producer to look at first, with acks=all if there is one; None: none has an offset."""
        placed = (one for one in self.own_losses if one.first_offset is not None)
        return min(placed, key=lambda one: one.acks, default=None)

    @property
    def attributed(self) -> list[Blamed]:
        """The anomalies whose cause is known, of every kind."""
        blamed = self.blamed or _blamed_in_views(self)
        return [one for one in blamed if one.cause is not None]

    @property
    def sent_nothing(self) -> bool:
        """Whether the run ended before it sent a record, so that there is nothing to judge."""
        return self.outcome == "inconclusive" and any(reason.startswith(NOTHING_SENT) for reason in self.why)


def _blamed_in_views(verdict: Verdict) -> list[Blamed]:
    """Return what an older Ebbtide, which wrote no `blamed`, said in a list for each kind."""

    def blamed(
        one: Loss | Regression | CommitLoss,
        kind: str,
        first: int,
        last: int,
        *,
        count: int = 1,
        committed: bool = True,
        group: str | None = None,
    ) -> Blamed:
        return Blamed(
            kind=kind,
            topic=one.topic,
            partition=one.partition,
            group=group,
            count=count,
            first=first,
            last=last,
            committed=committed,
            cause=one.cause,
            election=one.election,
            why="",
        )

    return [
        *(
            blamed(one, LOST, one.first_offset, one.last_offset, count=one.count, committed=one.committed)
            for one in verdict.losses
        ),
        *(blamed(one, HW_REGRESSION, one.to, one.from_) for one in verdict.regressions),
        *(blamed(one, one.kind, one.offset, one.offset, count=one.count, group=one.group) for one in verdict.commits),
    ]


def disturbance_of(manifest: Manifest, verdict: Verdict) -> str | None:
    """Return what outside of a run ended it early, if its record decides nothing for that reason; else None.

    Such a run says nothing about Kafka, and is worth repeating. A contradiction is a proof all the same.
    """
    if manifest.status != "failed" or verdict.outcome != "inconclusive":
        return None
    return manifest.why_incomplete or "the run failed"


def unfinished_verdict(run_id: str) -> Verdict:
    """Return the verdict that a record has until it has been judged."""
    return Verdict(run_id=run_id, outcome="inconclusive", why=["not finished: the run has not been judged yet"])


def write_verdict(record: RecordFolder, verdict: Verdict) -> None:
    """Replace the record's verdict.json in one step."""
    write_atomically(record / VERDICT, msgspec.json.format(msgspec.json.encode(verdict), indent=2) + b"\n")


def read_judgement(record: RecordFolder) -> Verdict:
    """Return the verdict of a record that has been judged.

    Raises `UsageError` when it has no verdict that can be read.
    """
    verdict = read_verdict(record)
    if verdict is None:
        raise not_judged(record)
    return verdict


def not_judged(record: RecordFolder, got: str | None = None) -> UsageError:
    """Return the error of a command that needs the verdict; `got` says what the run was."""
    next_ = f"ebbtide analyze {shlex.quote(str(record))}"
    return UsageError("the record has not been judged", where=str(record), got=got, next=next_)


def read_verdict(record: RecordFolder) -> Verdict | None:
    """Return the verdict of a record; None when it has none that can be read."""
    try:
        return decode_json(read_file(record / VERDICT), Verdict)
    except (UnreadableFile, msgspec.DecodeError):
        return None
