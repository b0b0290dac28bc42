"""A run record as the judge sees it: each small file is read once, and what follows from them is computed once.

    record = Record.at(RecordFolder(path))
    record.steps, record.scenario, record.gaps, record.timeline, record.protocol
    for batch in record.batches("sends", ["value"], pc.field("acks") == -1): ...

`judging.one_record.prepare_record` makes it once the record's tables are complete. Nothing below it takes a path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from analysis.record.clock_steps import AGREE_NS, CLOCKS_AGREE_NS, Span, StepsBack, unsure_spans
from analysis.record.elections import ElectionEvent, all_elections
from analysis.record.files import Missing, RecordFiles
from analysis.record.protocol import RulesInForce
from analysis.record.requests import Request, requests
from analysis.record.scans import R, Scan, feed_table
from analysis.record.timeline import Timeline, load_timeline, watched_timeline
from analysis.record.traffic import Place, Traffic, WireRow
from analysis.record.whole import Gap, gaps_of
from ebbtide.logs.segments import METADATA_FOLDER, TopicPartition
from ebbtide.record.log_losses import BrokerLogLoss, log_losses
from ebbtide.record.steps import StepEntry
from ebbtide.scenario.model import Scenario

if TYPE_CHECKING:
    from analysis.remote.record import RemoteRecord

KAFKA_SESSION_TIMEOUT_S = 9.0
"""broker.session.timeout.ms in seconds, where the scenario does not set it."""


class Record(RecordFiles):
    """A run record with what the judge reads from it. Raises `UsageError` where a file that is asked for is damaged.

    Of a cluster that was only watched, the record has what people said of its steps and no proof. Then no step counts.
    """

    asked: tuple[type[Scan[Any]], ...] = ()
    """The scans that the pass over each table feeds."""
    asked_if_possible: tuple[type[Scan[Any]], ...] = ()
    """The scans that the pass which chooses rows feeds: where no anomaly can occur, nobody asks for them."""
    remote: RemoteRecord | None = None
    """The record on another file system that the folder is a copy of."""

    @cached_property
    def _scans(self) -> dict[type[Scan[Any]], Scan[Any]]:
        return {}

    @cached_property
    def kept_lines(self) -> dict[str, tuple[Sequence[bytes], Exception | None]]:
        """The lines of nodes' logs that are asked for more than once, and why the rest of a log cannot be read."""
        return {}

    def scans(self) -> list[Scan[Any]]:
        """Return all scans that somebody asks for, as far as they are."""
        return [self._scan(kind) for kind in self.asked]

    def scans_if_possible(self) -> list[Scan[Any]]:
        """Return all scans that somebody asks for where an anomaly can occur, as far as they can be fed by now."""
        return [self._scan(kind) for kind in self.asked_if_possible if not kind.needs_items(self)]

    def seen(self, kind: type[Scan[R]]) -> R:
        """Return the answer of a scan, which reads the tables that it has not read."""
        scan = self._scan(kind)
        for table in scan.columns:
            feed_table(self, table, [scan])
        return scan.answer

    def _scan(self, kind: type[Scan[R]]) -> Scan[R]:
        if kind not in self._scans or self._scans[kind].is_torn:
            self._scans[kind] = kind(self)
        return self._scans[kind]

    @cached_property
    def gaps(self) -> tuple[Gap, ...]:
        """What the record once had and now lacks."""
        return gaps_of(self)

    def why_not_whole(self, parts: Collection[str]) -> str | None:
        """Return why these parts are not as the run left them; None: they are."""
        return next((f"the record is not whole: {one.why}" for one in self.gaps if one.part in parts), None)

    @cached_property
    def timeline(self) -> Timeline:
        """The states of partitions, brokers and configs, by the metadata log."""
        found, watch = load_timeline(self), self.manifest.watch
        return found if watch is None else watched_timeline(self, found, watch)

    @cached_property
    def traffic(self) -> Traffic | None:
        """What clients of one's own sent and got through published ports; None: that was not recorded."""
        facts = self.manifest.wire
        return None if facts is None else Traffic(self.rows("wire", WireRow), facts)

    def why_gone_unknown(self, traffic: Traffic, place: Place) -> str | None:
        """Return why it is not known which records of own clients are gone from a partition; None: it is known."""
        topic = place[0]
        if (why := traffic.why_no_final_log(place)) is not None:
            return why
        policies = [row for row in self.timeline.configs if row.resource == f"topic:{topic}"]
        if any(row.name == "cleanup.policy" and "compact" in (row.value or "") for row in policies):
            return f"{topic} is compacted: which of its records were lost is not known"
        if [*self.manifest.topic_ids.values()].count(topic) > 1:
            return f"{topic} was deleted and made again: which of its records were lost is not known"
        return None

    @cached_property
    def elections(self) -> tuple[ElectionEvent, ...]:
        """The elections of every partition."""
        return all_elections(self.timeline)

    @cached_property
    def protocol(self) -> RulesInForce:
        """The rules that were in force, by the releases, the feature levels and the configs."""
        return RulesInForce(self.manifest, self.timeline)

    @cached_property
    def unsure_spans(self) -> tuple[Span, ...]:
        """The spans of time in which the record's clock is not sure, oldest first."""
        report = self.reports.timeline
        return unsure_spans(
            [*self.seen(StepsBack), *(report.unsure_ns if report is not None else ())],
            self.timeline,
            self.proven_steps or (),
            apart_ns=AGREE_NS if self.manifest.watch is None else CLOCKS_AGREE_NS,
        )

    @property
    def readable_scenario(self) -> Scenario | None:
        """The scenario; None: it is missing or cannot be read."""
        return None if isinstance(self.scenario, Missing) else self.scenario

    @property
    def proven_steps(self) -> Sequence[StepEntry] | None:
        """The steps, composed ones split; None: no steps prove anything."""
        return self.split_steps if self.manifest.watch is None else None

    @property
    def why_disks_unknown(self) -> str:
        """Why it is not known whether a disk lost data, where `log_losses` is None."""
        watched = self.manifest.watch is not None
        why = "nobody recorded what happened to this cluster" if watched else "steps.jsonl is missing"
        return f"{why}, so whether a disk lost data is not known"

    @cached_property
    def log_losses(self) -> tuple[BrokerLogLoss, ...] | None:
        """What steps took from logs; None: no steps prove anything."""
        return None if self.proven_steps is None else log_losses(list(self.proven_steps))

    @property
    def why_metadata_may_be_undone(self) -> str | None:
        """Why an ISR or a leader epoch may have been used twice; None: it may not."""
        if self.log_losses is None:
            return self.why_disks_unknown
        at, controllers = TopicPartition.parse(METADATA_FOLDER), self.manifest.topology.controllers
        if any(loss.broker in controllers and loss.costs(*at) for loss in self.log_losses):
            return "a controller lost its log: an ISR or a leader epoch may have been used twice"
        return None

    @cached_property
    def requests(self) -> tuple[Request, ...] | None:
        """What steps asked the controllers for; None: no steps prove anything."""
        return None if self.proven_steps is None else requests(self.proven_steps)

    @property
    def ends_early(self) -> bool:
        """Whether the metadata log may have had more records: the run ended early, or the log is damaged."""
        return self.timeline.torn or self.manifest.status != "complete"

    @property
    def statics(self) -> Mapping[str, str] | None:
        """The controllers' own properties; None: not known."""
        if self.readable_scenario is None or self.manifest.watch is not None:
            return None
        return self.readable_scenario.cluster.controller_properties

    @property
    def session_timeout_s(self) -> float:
        """How long a controller waits for a broker's heartbeat before it fences the broker."""
        known = self.readable_scenario
        return KAFKA_SESSION_TIMEOUT_S if known is None else known.cluster.session_timeout_s
