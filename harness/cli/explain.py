"""`ebbtide explain RUN`: tells the life of one record, and why it was lost or is safe."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.errors import ExitCode, UsageError
from ebbtide.named_files import check_named_file
from harness.cli import options
from harness.cli.command import Args, Command
from harness.cli.mistakes import one_at_a_time
from harness.cli.output import print_json

if TYPE_CHECKING:
    from analysis.explain.life import Life
    from analysis.record.record import Record
    from ebbtide.record.verdict import Verdict

_GROUPED = re.compile("[0-9]{1,3}(,[0-9]{3})+")
"""A number as this verb prints it."""


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Explain what happened to one record of a run. The command prints every row of evidence by time, each "
        "replica's copy in the end, and the reasoning of the verdict. Without a place or a value, the command explains "
        "the first lost record. The run must have been judged.",
        codes={2: "no record is named, and the run does not say whether one was lost"},
    )
    options.add_record_argument(command)
    command.argument(
        "place", needed=False, metavar="TOPIC-PARTITION:OFFSET", help="the offset of the record, e.g. t-0:1234"
    )
    command.option("--value", type=int, metavar="N", help="the record's value, as in the tables sends and polls")
    options.add_html_option(command, "the explanation")
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Print the life of a record. Raises `UsageError`."""
    from analysis.explain.subject import nothing_to_explain
    from analysis.record.record import Record
    from ebbtide.record.files import ANOMALIES_DIR, RecordFolder
    from ebbtide.record.manifest import read_run
    from ebbtide.record.verdict import VERDICT, not_judged, read_judgement, unfinished_verdict

    if args.place is not None and Path(args.place).exists():
        raise one_at_a_time("ebbtide explain", "RUN", [str(args.run), args.place])
    if args.html is not None:
        check_named_file(args.html, "page", "--html")
    folder = RecordFolder(args.run)
    manifest, verdict = read_run(folder), read_judgement(folder)
    record = Record(folder, manifest)
    is_judged = verdict != unfinished_verdict(manifest.run_id)
    if (nothing := nothing_to_explain(record, verdict)) is not None:
        if not is_judged or args.place is not None or args.value is not None:
            raise nothing
        return _print_nothing(args, nothing)
    if not is_judged:
        why = f": {manifest.why_incomplete}" if manifest.why_incomplete else ""
        raise not_judged(folder, got=f"the status of the run is {manifest.status}{why}")
    if verdict.anomalies and not folder.files(ANOMALIES_DIR):
        raise not_judged(folder, got=f"{VERDICT} counts anomalies, and {ANOMALIES_DIR}/ is missing")
    life = _life(args, record, verdict)
    if life is None:
        return _print_no_loss(args, verdict)
    from analysis.explain.page import render_life, render_text

    if args.html is not None:
        from analysis.report.pages import write_page

        write_page(args.html, render_life(life))
    if args.json:
        print_json(life)
        return ExitCode.AS_PREDICTED
    print(render_text(life))
    if args.html is not None:
        print(f"\npage: {args.html}")
    return ExitCode.AS_PREDICTED


def _print_nothing(args: Args, nothing: UsageError) -> ExitCode:
    """Say that a judged run has no record to explain."""
    to = sys.stderr if args.json else sys.stdout
    print(f"{args.run}: {nothing.what}\n  {nothing.got}\nnext: {nothing.next}", file=to)
    if args.json:
        print_json(None)
    return ExitCode.INCONCLUSIVE


def _print_no_loss(args: Args, verdict: Verdict) -> ExitCode:
    """Say that no lost record is known, and whether that means that none is lost."""
    from analysis.sentences.words import count_lost

    is_known = count_lost(verdict) is not None
    to = sys.stderr if args.json else sys.stdout
    if is_known and not verdict.own_losses:
        print(f"{args.run}: no acked record is lost", file=to)
    else:
        print(f"{args.run}: it is not known {'where' if is_known else 'whether'} an acked record is lost", file=to)
        for why in verdict.why:
            print(f"  {why}", file=to)
    next_ = f"ebbtide explain {shlex.quote(str(args.run))} TOPIC-PARTITION:OFFSET"
    print(f"next: {next_}    (explains any record)", file=to)
    if args.json:
        print_json(None)
    return ExitCode.AS_PREDICTED if is_known else ExitCode.INCONCLUSIVE


def _life(args: Args, record: Record, verdict: Verdict) -> Life | None:
    """Return the life of the record that the command line names, or of the first lost one; None: nothing is lost."""
    from analysis.explain.life import explain
    from analysis.explain.own_record import explain_own
    from analysis.explain.subject import first_lost_subject, subject_at, subject_of_value
    from ebbtide.logs.segments import TopicPartition
    from ebbtide.scenario.words import PartitionName, whole_number

    if args.value is not None and args.place is not None:
        raise UsageError("the command names two records", got=f"{args.place} and --value {args.value}", allowed="one")
    if args.value is not None:
        return explain(record, subject_of_value(record, args.value))
    if args.place is None:
        if (first := first_lost_subject(record)) is not None:
            return explain(record, first)
        own = verdict.first_own_loss
        lost_at = None if own is None else (TopicPartition(own.topic, own.partition), own.first_offset or 0)
        return None if lost_at is None else explain_own(record, *lost_at)
    name, _, number = args.place.rpartition(":")
    offset = whole_number(number.replace(",", "") if _GROUPED.fullmatch(number) else number)
    try:
        at = PartitionName(name).at
    except UsageError:
        offset = None
    if offset is None:
        raise UsageError(
            "not the place of a record",
            where="TOPIC-PARTITION:OFFSET",
            got=repr(args.place),
            allowed="a partition and an offset, e.g. t-0:1234",
            next=f"ebbtide explain {shlex.quote(str(args.run))}    (explains the first lost record, if there is one)",
        )
    return explain_own(record, at, offset) or explain(record, subject_at(record, at, offset))
