"""What recorded runs of the catalogue lost, for the events of advice."""

from __future__ import annotations

from packaging.version import Version

from analysis.advise.events import AdvisedEvent
from analysis.advise.groups import GroupSettings
from analysis.advise.release import ReleaseFacts
from ebbtide.releases.feature_levels import ELR_VERSION
from ebbtide.releases.first_with import ELR_BY_DEFAULT
from ebbtide.scenario.measured_runs import measured_rows

_SHOWN_MAX = 2
_RF, _MIN_ISR = 3, 2
"""The catalogue measures this configuration, but for scenarios that name another one."""


def measured_of(event: AdvisedEvent, settings: GroupSettings, release: ReleaseFacts) -> tuple[str, ...]:
    """Return what runs near this event lost, on releases of the same minor with the ELR alike.

    A run counts only where the settings are those of the catalogue: RF 3, min ISR 2, nothing flushed.
    """
    if (settings.rf, settings.effective_min_isr) != (_RF, _MIN_ISR) or settings.unclean:
        return ()
    minor = Version(release.kafka).release[:2]
    found = []
    for scenario in _nearest(event, settings):
        by_target: dict[str, set[str]] = {}
        for row in measured_rows():
            if row.scenario == scenario and _target(row.target) == (minor, release.is_elr_on):
                by_target.setdefault(row.target.partition(":")[0], set()).update(row.lost)
        found += [f"{scenario} on {target}: lost {_range(lost)}" for target, lost in sorted(by_target.items())]
    return tuple(found[:_SHOWN_MAX])


def _nearest(event: AdvisedEvent, settings: GroupSettings) -> tuple[str, ...]:
    if not settings.flushes_each_record:
        return event.shown_by
    return ("rack-power-flushed",) if "power_losses" in event.budget else event.shown_by


def _range(lost: set[str]) -> str:
    """Return the losses of runs such as `606 last-known-leader` and `613 last-known-leader` as one range a cause."""
    counts: dict[str, list[int]] = {}
    for run in lost - {"none"}:
        for loss in run.split(", "):
            count, cause = loss.split(" ", 1)
            counts.setdefault(cause, []).append(int(count.replace(",", "")))
    ranges = [
        f"{min(of):,} to {max(of):,} {cause}" if len(set(of)) > 1 else f"{of[0]:,} {cause}"
        for cause, of in sorted(counts.items())
    ]
    return ", ".join([*(["none"] if "none" in lost else []), *ranges]).replace("none, ", "none or ")


def _target(text: str) -> tuple[tuple[int, ...], bool]:
    """Return the minor release of a target such as `4.3.1:eligible.leader.replicas.version=0`, and if the ELR is on."""
    kafka, _, features = text.partition(":")
    version = Version(kafka)
    levels = dict(one.partition("=")[::2] for one in features.split(",") if one)
    return version.release[:2], int(levels.get(ELR_VERSION, int(version >= ELR_BY_DEFAULT))) >= 1
