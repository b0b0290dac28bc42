"""Names what judging asks of the rows of a record, so that one pass over each table answers all of it."""

from __future__ import annotations

from typing import Any

from analysis.causes.columns import RowsOfPartitions
from analysis.judge.coverage.client_facts import ReadPastElections
from analysis.judge.coverage.restart_facts import GotAgain, LeftUnanswered
from analysis.judge.coverage.topic_facts import ReadAgain
from analysis.judge.coverage.transaction_facts import MarkerEpochs
from analysis.judge.history.answers import CompareAnswers
from analysis.judge.history.appends_below import FindAppendsBelow
from analysis.judge.history.commit_offsets import OffsetsOfCommits
from analysis.judge.history.commits_known import FindDroppedCommits
from analysis.judge.history.cut_records import FindCutRecords
from analysis.judge.history.epoch_starts import FindHwsBelowStart
from analysis.judge.history.epochs_of_acks import FindLateEpochs
from analysis.judge.history.markers import LastOfTransactions
from analysis.judge.history.producer_order import FindProducerOrder
from analysis.judge.history.reads_and_hws import FindReadsAboveHw
from analysis.judge.history.sent import CountAckedSends, CountCopies
from analysis.judge.history.service_cells import ServiceCells
from analysis.judge.history.stretches import StretchesSeen
from analysis.record.clock_steps import StepsBack
from analysis.record.scans import Scan
from analysis.report.picture.series import ObservedOffsets

SCANS: tuple[type[Scan[Any]], ...] = (
    CompareAnswers,
    CountAckedSends,
    CountCopies,
    FindAppendsBelow,
    FindCutRecords,
    FindDroppedCommits,
    FindHwsBelowStart,
    FindLateEpochs,
    FindProducerOrder,
    FindReadsAboveHw,
    GotAgain,
    LastOfTransactions,
    LeftUnanswered,
    MarkerEpochs,
    ObservedOffsets,
    OffsetsOfCommits,
    ReadAgain,
    ReadPastElections,
    ServiceCells,
    StepsBack,
    StretchesSeen,
)

SCANS_IF_POSSIBLE: tuple[type[Scan[Any]], ...] = (RowsOfPartitions,)
"""What is asked only where an anomaly can occur."""
