"""Prints verdicts: as JSON lines, as one line each, or side by side in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ebbtide.record.files import RecordFolder
from harness.cli.output import print_json, print_warning

if TYPE_CHECKING:
    from analysis.record.record import Record
    from analysis.report.summary import JudgedRun
    from ebbtide.record.outcomes import FailOn
    from ebbtide.record.verdict import Verdict

_BULLET = "  - "
SIDE_BY_SIDE_MAX = 12
"""Above this number of runs, each gets one line as soon as it is judged."""


class VerdictOutput:
    """Prints `count` verdicts; `in_lines`: one line each. `show` gets each one instead, where JSON was asked for."""

    def __init__(
        self,
        count: int,
        *,
        as_json: bool,
        show: Callable[[Verdict], object] | None = None,
        in_lines: bool = False,
        fail_on: FailOn = "outcome",
    ) -> None:
        self._is_table = not as_json and not in_lines and count <= SIDE_BY_SIDE_MAX
        self._show = (show or print_json) if as_json else None
        self._runs: list[JudgedRun] = []
        self._seen: dict[Path, JudgedRun] = {}
        self._fail_on = fail_on

    def see(self, record: Record, verdict: Verdict) -> None:
        """Take from a record that was just judged what the table shows of it: then `add` does not read it again."""
        from analysis.report.summary import judged_run

        if self._is_table:
            self._seen[record.folder.path] = judged_run(record, verdict)

    def add(self, record: RecordFolder, verdict: Verdict, *, named: str | None = None) -> None:
        """Print a verdict, or keep it for the table. `named` is the record's address, if `record` is a copy."""
        from analysis.record.record import Record
        from analysis.report.summary import judged_run
        from ebbtide.record.outcomes import outcome_word

        if self._show is not None:
            self._show(verdict)
        elif self._is_table:
            run = self._seen.pop(record.path, None) or judged_run(Record.at(record), verdict)
            self._runs.append(run if named is None else msgspec.structs.replace(run, record=named))
        else:
            print(f"{named or record}: {outcome_word(verdict)}: {'; '.join(verdict.why[:1])}", flush=True)
            _print_loss(verdict, self._fail_on)

    def end(self) -> None:
        """Print the table, if there is one."""
        if self._runs:
            _print_summary(self._runs, self._fail_on)


def print_side_by_side(runs: Sequence[JudgedRun]) -> None:
    """Print a table of the runs."""
    from analysis.report.summary import summary_text
    from ebbtide.folding import shown_width

    print(summary_text(runs, shown_width()))


def _print_loss(verdict: Verdict, fail_on: FailOn) -> None:
    """Print what was lost, and what that means for the exit code; nothing where nothing committed was lost."""
    from ebbtide.record.outcomes import exit_code_sentence, loss_sentences

    for sentence in (loss_sentences(verdict), exit_code_sentence(verdict, fail_on)):
        if sentence is not None:
            print_warning(f"  {sentence}")


def _print_summary(runs: Sequence[JudgedRun], fail_on: FailOn) -> None:
    """Print the runs side by side, then the reasons for each verdict and its report."""
    from ebbtide.record.files import is_run_id
    from ebbtide.record.outcomes import next_command, outcome_word
    from ebbtide.shown_text import has_other_name, shown_path

    print_side_by_side(runs)
    for one in runs:
        run_id = one.manifest.run_id
        print(f"\n{run_id if is_run_id(run_id) else repr(run_id)}: {outcome_word(one.verdict)}")
        _print_loss(one.verdict, fail_on)
        for sentence in one.verdict.why:
            print(f"{_BULLET}{sentence}")
        record = shown_path(one.record)
        gone = "none is kept of an archive; unpack it, and analyze the folder"
        print(f"  report: {gone if has_other_name(one.record) else f'{record}/report.html'}")
        print(f"  next:   {next_command(record, one.manifest, one.verdict)}")
