"""The `run_record` fixture: where the record of a run is, and how it was judged."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebbtide.record.verdict import Verdict
    from ebbtide.scenario.model import Prediction


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One judged run; `path` is its folder, `verdict` the decoded verdict.json, `next` the command to type next.

    `watched`: Ebbtide did not start the cluster. `kafka_assumed`: the patch of its release is not known.
    A replay also has `ignored_properties`, which its release does not know, and `fidelity`, which says from 0 to 1 how
    far it agrees with the recorded run.
    """

    path: Path
    verdict: Verdict
    kafka: str
    seed: int | None
    next: str
    watched: bool = False
    kafka_assumed: bool = False
    ignored_properties: tuple[str, ...] = ()
    fidelity: float | None = None

    def __repr__(self) -> str:
        # pytest prints it, several times, where a test fails.
        lost = f"lost_committed={self.lost_committed}, lost_uncommitted={self.lost_uncommitted}"
        return f"RunRecord({str(self.path)!r}, {self.outcome}, {lost})"

    @property
    def shown_kafka(self) -> str:
        """The release in words, as every text has it."""
        from ebbtide.releases.known_releases import shown_release

        return shown_release(self.kafka, is_assumed=self.kafka_assumed)

    @property
    def outcome(self) -> str:
        """`as-predicted`, `contradicted` or `inconclusive`."""
        return self.verdict.outcome

    @property
    def lost(self) -> int:
        """The number of acked records that are lost, committed or not; see `lost_committed`."""
        return self.lost_committed + self.lost_uncommitted

    @property
    def own_acked(self) -> int | None:
        """How many records of the test's own producers were acked through published ports; None: not recorded."""
        own = self.verdict.own_producers
        return sum(one.acked for one in own) if isinstance(own, list) else None

    @property
    def own_lost(self) -> int:
        """How many of these are gone."""
        return sum(one.lost for one in self.verdict.own_losses)

    @property
    def own(self) -> str:
        """What became of these in one line; empty: not recorded."""
        return f"your producers: {self.verdict.own_figure}" if self.own_acked is not None else ""

    @property
    def lost_committed(self) -> int:
        """The number of lost records that were committed: the protocol promises to keep them."""
        from ebbtide.record.outcomes import lost_counts

        return lost_counts(self.verdict).committed

    @property
    def lost_uncommitted(self) -> int:
        """The number of lost records that were acked with acks=0 or acks=1, and never committed."""
        from ebbtide.record.outcomes import lost_counts

        return lost_counts(self.verdict).uncommitted


def read_record(path: Path) -> RunRecord:
    """Read a judged record.

    Raises `UsageError` if it is not a record, or has no verdict.
    """
    from ebbtide.record.files import RecordFolder
    from ebbtide.record.manifest import read_manifest
    from ebbtide.record.outcomes import next_command
    from ebbtide.record.verdict import read_judgement

    folder = RecordFolder(path)
    manifest, verdict = read_manifest(folder), read_judgement(folder)
    return RunRecord(
        path=path,
        verdict=verdict,
        kafka=manifest.kafka_name,
        kafka_assumed=manifest.kafka_assumed,
        seed=manifest.seed,
        next=next_command(str(path), manifest, verdict),
        watched=manifest.watch is not None,
        ignored_properties=manifest.ignored_properties,
    )


def prediction_of(run: RunRecord) -> Prediction | None:
    """Return the prediction of the run's scenario.

    Returns None if it has none that can be read.
    """
    from ebbtide.record import predictions
    from ebbtide.record.files import RecordFolder
    from ebbtide.record.manifest import read_manifest

    folder = RecordFolder(run.path)
    return predictions.prediction_of(folder, read_manifest(folder))


_LINE_NUMBER = re.compile(r"^(?P<place> *where: +(?P<key>.*)) \(line \d+\)$", re.MULTILINE)


class CommandFailed(Exception):
    """The command failed; the message is the end of its output.

    With `mistake` the test asked for something wrong, and the message says what is right.
    """

    def __init__(self, message: str, *, mistake: bool = False) -> None:
        super().__init__(message)
        self.mistake = mistake

    def about(
        self,
        name: str,
        file: Path,
        *,
        line_of: Callable[[str], int | None] = lambda _: None,
        next: str | None = None,
    ) -> CommandFailed:
        """Return the same error about `name`: the plugin wrote the file, and the author of the test has none.

        `line_of` returns the author's line of a key of the file, and `next` replaces a command that takes the file.
        Without them, lines and command are left out.
        """
        lines = []
        for line in str(self).splitlines():
            if not (line.startswith("  next: ") and str(file) in line):
                lines.append(line)
            elif next is not None:
                lines.append(f"  next:    {next}")

        def with_line(found: re.Match[str]) -> str:
            line = line_of(found["key"])
            return found["place"] + ("" if line is None else f" (line {line})")

        text = _LINE_NUMBER.sub(with_line, "\n".join(lines)).replace(str(file), name)
        return CommandFailed(text, mistake=self.mistake)

    def full_message(self) -> str:
        """Return the message; it says so if the harness failed."""
        return str(self) if self.mistake else f"the harness failed: {self}"
