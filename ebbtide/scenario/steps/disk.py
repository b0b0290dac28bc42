"""Steps on a node's volume."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType

from ebbtide.scenario.steps.step import Kind, StepProof, TargetStep, TornPage
from ebbtide.scenario.words import Duration

_disk = partial(Kind, family="disk", undone="ledger entry `volume`: unmounted, its loop device freed")
_loss = partial(_disk, healed_by="start", requires="loop mounts, ext4, a write-back hold; else `truncate`")
_ALL = MappingProxyType({"directory": "all log directories of the node"})
_trouble = partial(
    _disk,
    unset=_ALL,
    healed_by="mend-disk",
    host=("loop mounts",),
    requires="loop mounts",
    not_where="user namespace, `--power-loss truncate`",
)


class DirectoryStep(TargetStep, frozen=True, kw_only=True):
    """A step on the volume of one log directory of its nodes, or on those of all."""

    class Proof(StepProof, frozen=True, kw_only=True):
        """The logs that the named log directory held: the others lose nothing. None: the step named none."""

        holds: tuple[str, ...] | None = None

    shown = MappingProxyType({"directory": "the number, from 1 on, of one of several `log_dirs`"})
    directory: int | None = None


class PowerLossStep(TargetStep, frozen=True, kw_only=True, tag="power-loss"):
    """Ends a process and takes from its volume what was not fsynced."""

    class Proof(StepProof, frozen=True, kw_only=True):
        """By which method the records were taken: `fs-shutdown` is the kernel's own, by what was fsynced."""

        method: str | None = None

    kind = _loss(
        does="SIGKILL, then everything that was not fsynced is lost",
        proof="the pid no longer exists, the volume refused a write, and a file without fsync did not come back",
        loses="unflushed",
        counted=("power-losses", "nodes that lost power"),
        weight=3.0,
        at_controllers=True,
    )


class TornWriteStep(TargetStep, frozen=True, kw_only=True, tag="torn-write"):
    """A power loss in the middle of a write."""

    class Proof(StepProof, frozen=True, kw_only=True):
        """The page that was torn in each log that lost something."""

        torn: dict[str, TornPage] | None = None

    kind = _loss(
        does="a power loss in the middle of a write: half of the first lost page of each log is there, then zeros",
        proof="the proof of a power loss, and a reader finds the damage at the end of each torn log",
        loses="unflushed",
        counted=("writes-torn", "nodes that lost power in the middle of a write"),
    )


class WipeDiskStep(DirectoryStep, frozen=True, kw_only=True, tag="wipe-disk"):
    """Replaces a node's disk by an empty one."""

    kind = _loss(
        does="SIGKILL, then a new file system, formatted by Kafka's own tool for the same cluster: a replaced disk",
        proof="the pid no longer exists, no partition's folder is on the disk, its cluster id is the old one",
        loses="all",
        unset=_ALL,
        changes_directory=True,
        counted=("disks-replaced", "disks replaced by empty ones"),
        weight=0.7,
    )


class FillDiskStep(DirectoryStep, frozen=True, kw_only=True, tag="fill-disk"):
    """Leaves no byte on a volume."""

    kind = _trouble(
        does="fills the node's volume to its last byte",
        proof="a write is refused with ENOSPC",
        volume="full",
        changes_directory=True,
        counted=("disks-full", "disks filled"),
        weight=0.4,
    )


class ReadOnlyStep(DirectoryStep, frozen=True, kw_only=True, tag="read-only"):
    """Lets a volume take no more writes."""

    kind = _trouble(
        does="ends the file system's journal, as the kernel does after an I/O error: the volume takes no writes",
        proof="a write is refused with EROFS",
        volume="dead",
        loses="unflushed",
        changes_directory=True,
        counted=("disks-read-only", "disks made read-only"),
        weight=0.4,
    )


class FailDiskStep(DirectoryStep, frozen=True, kw_only=True, tag="fail-disk"):
    """Lets a volume die under its node."""

    kind = _trouble(
        does="shuts the file system down under the running node",
        proof="a write is refused with EIO",
        volume="dead",
        loses="unflushed",
        changes_directory=True,
        counted=("disks-failed", "disks made to fail"),
        weight=0.6,
    )


class SlowDiskStep(DirectoryStep, frozen=True, kw_only=True, tag="slow-disk"):
    """Freezes a volume for `delay` of every `period`."""

    kind = _trouble(
        does="freezes the volume for `delay` of every `period`: writes wait",
        proof="the volume was frozen, and then a write with its fsync took `delay`",
        volume="slow",
        note="e.g. `800ms` of every `1s`",
        host=("loop mounts", "slow volumes"),
        requires="loop mounts, FIFREEZE",
        undone="the process that freezes thaws and ends once the harness has ended; "
        "if it was killed too, ledger entry `slowness`: thawed",
        counted=("disks-slow", "disks slowed down"),
        weight=0.6,
        drawn={"delay": ("200ms", "500ms", "1500ms"), "period": ("2s",)},
    )
    shown = MappingProxyType({"period": "the time from one freeze to the next, e.g. '2s'"})
    delay: Duration
    period: Duration


class MendDiskStep(TargetStep, frozen=True, kw_only=True, tag="mend-disk"):
    """Makes a volume whole again."""

    kind = _disk(
        does="frees, thaws or mounts the volume again",
        note="kills a broker that goes on without a log directory, because only a start opens it again",
        proof="a write succeeds",
        undone=None,
        may_leave_down=True,
        changes_directory=True,
        weight=3.0,
    )


DiskStep = (
    PowerLossStep
    | TornWriteStep
    | WipeDiskStep
    | FillDiskStep
    | ReadOnlyStep
    | FailDiskStep
    | SlowDiskStep
    | MendDiskStep
)
