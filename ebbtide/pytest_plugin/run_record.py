"""What a test is given of a run: where its record is, and how it was judged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ebbtide.record.verdict import Verdict
    from ebbtide.scenario.model import Prediction


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """One judged run. `path` is its folder; `verdict` is verdict.json, decoded.

    `ignored_properties`: of a replay, those of the scenario that had no effect, since this release does not know them.
    `fidelity`: of a replay, how far it agrees with the recorded run, from 0 to 1.
    """

    path: Path
    verdict: Verdict
    kafka: str
    seed: int | None
    ignored_properties: tuple[str, ...] = ()
    fidelity: float | None = None

    @property
    def outcome(self) -> str:
        """`as-predicted`, `contradicted` or `inconclusive`."""
        return self.verdict.outcome

    @property
    def lost(self) -> int:
        """Acked records that are gone, committed or not."""
        return sum(loss.count for loss in self.verdict.losses)


def read_record(path: Path) -> RunRecord:
    """A record that has been judged. Raises `UsageError` when it is none."""
    from ebbtide.record.manifest import read_manifest
    from ebbtide.record.verdict import read_judgement

    manifest, verdict = read_manifest(path), read_judgement(path)
    return RunRecord(
        path=path,
        verdict=verdict,
        kafka=manifest.kafka,
        seed=manifest.seed,
        ignored_properties=manifest.ignored_properties,
    )


def prediction_of(run: RunRecord) -> Prediction | None:
    """What its scenario predicts of the run; None: nothing that can be read, as the verdict says."""
    from ebbtide.record import predicted
    from ebbtide.record.manifest import read_manifest

    return predicted.prediction_of(run.path, read_manifest(run.path))
