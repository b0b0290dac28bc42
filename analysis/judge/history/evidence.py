"""Holds what causes are judged from, and the question that a cause answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from analysis.judge.history.clock_steps import ClockDoubt
from analysis.judge.history.elections import ElectionEvent
from analysis.judge.history.epochs import Epochs
from analysis.judge.history.requests import Request
from analysis.judge.history.rules import Rules
from analysis.judge.history.stops import BrokerStop
from analysis.judge.history.timeline import Timeline
from analysis.record.record import Record
from ebbtide.record.log_losses import BrokerLogLoss
from ebbtide.record.verdict import Cause

Row = dict[str, Any]
"""One piece of evidence, as verdict.json lists it."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """The facts of a run on the driver.

    `log_losses` and `asked` None: no steps prove anything, because of `no_steps`. `stops` are those
    that steps prove. `statics` are the controllers' own properties; None: not known.
    `prompt_consumers`: see `prompt_consumers.py`. `ends_early`: the metadata log may have had more
    records, because the run ended early or the log is damaged. `clock`: which of the times are not sure.
    """

    record: Record
    timeline: Timeline
    rules: Rules
    epochs: Epochs
    log_losses: tuple[BrokerLogLoss, ...] | None
    asked: tuple[Request, ...] | None = None
    stops: tuple[BrokerStop, ...] = ()
    ends_early: bool = False
    statics: Mapping[str, str] | None = None
    prompt_consumers: frozenset[int] = frozenset()
    clock: ClockDoubt = ClockDoubt()
    no_steps: str = "steps.jsonl is missing"

    @property
    def why_disks_unknown(self) -> str:
        """Why it is not known whether a disk lost data, where `log_losses` is None."""
        return f"{self.no_steps}, so whether a disk lost data is not known"


class LostOffset(msgspec.Struct, frozen=True, kw_only=True):
    """An offset that a leader must have lost: it was acked or served, and is missing.

    It was acked or served at `since_ns`, under an epoch of at most `since_epoch`. `until_epoch`
    bounds the guilty election from above; None: any later election. `exact`: the record itself says
    that it was appended under `since_epoch`, so no election up to that epoch is guilty. `had_min_isr`:
    it was acked with acks=all, so that at least min ISR replicas had it.
    """

    topic: str
    partition: int
    offset: int
    committed: bool
    since_ns: int
    since_epoch: int
    until_epoch: int | None = None
    exact: bool = False
    had_min_isr: bool = False

    @property
    def name(self) -> str:
        """The partition as `topic-partition`."""
        return f"{self.topic}-{self.partition}"


class Attribution(msgspec.Struct, frozen=True, kw_only=True):
    """A cause with its election, and the reason in a sentence; cause None: not known.

    `breaks_kip_903`: unexplained because a broker joined the ISR without its log although KIP-903
    was in force.
    """

    cause: Cause | None
    election: ElectionEvent | None
    why: str
    breaks_kip_903: bool = False
