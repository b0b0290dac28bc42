"""Prepares the runs of a command.

Chooses the runtime of each release, the power-loss method and the folder of records.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from cluster.runtime.base import PowerLossMethod
from cluster.runtime.choose import Asked, Choice, check_options, choose_runtime
from ebbtide.errors import HarnessError, UsageError
from ebbtide.releases.builds import is_build
from ebbtide.releases.known_releases import parse_version
from ebbtide.scenario.model import Scenario
from ebbtide.scenario.steps.table import DISK_TROUBLES
from ebbtide.scenario.validate_clients import validate_group_protocols
from ebbtide.scenario.validate_quorum import validate_log_dirs, validate_quorum_on
from ebbtide.scenario.validate_upgrades import validate_features, validate_upgrades
from harness.runner.gates import Gate
from harness.runner.host import require_folder, require_libraries
from harness.runner.run import RunRequest


class LaunchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of the command line on how to run.

    `image` is a reference of a Docker image.
    """

    runs: Path = Path("runs")
    runtime: Asked = "auto"
    image: str | None = None
    power_loss: Literal["auto", "fs-shutdown", "truncate"] = "auto"

    def typed(self) -> str:
        """Return the options that are not the defaults, each after a space, for a command that runs as this one."""
        changed = [name for name in self.__struct_fields__ if getattr(self, name) != getattr(LaunchOptions(), name)]
        return "".join(f" --{name.replace('_', '-')} {shlex.quote(str(getattr(self, name)))}" for name in changed)


class Launch(msgspec.Struct, frozen=True, kw_only=True):
    """The decisions that all runs of a command share; makes the request of each run."""

    runs: Path
    runtimes: Mapping[str, Choice]
    power_loss_method: PowerLossMethod

    def describe_way(self, kafka: str) -> str:
        """Describe how runs of a release are made.

        Runs of different ways are different experiments.

        The journals of shrinks keep this text: with other words here, an earlier shrink would begin again.
        """
        power: str = self.power_loss_method
        if power == "fs-shutdown":
            power += ", write-back held"
        choice = self.runtimes[kafka]
        image = choice.host_facts().get("image_id")
        return f"power lost by {power}, runtime {choice.name}" + (f", image {image}" if image else "")

    def request(
        self,
        scenario: Scenario,
        kafka: str,
        seed: int,
        *,
        replay_of: str | None = None,
        allow_unknown_properties: bool = False,
        gates: Mapping[int, Gate] | None = None,
    ) -> RunRequest:
        """Return the request of a run on `kafka`, for which this launch was prepared.

        See `RunRequest`.
        """
        return RunRequest(
            scenario=scenario,
            kafka=kafka,
            seed=seed,
            runs=self.runs,
            runtime=self.runtimes[kafka],
            power_loss_method=self.power_loss_method,
            hold_write_back=scenario.cluster.write_back != "kernel",
            replay_of=replay_of,
            allow_unknown_properties=allow_unknown_properties,
            gates=gates or {},
        )


def check(options: LaunchOptions, scenario: Scenario, releases: Sequence[str]) -> None:
    """Check everything that can be refused before anything is made.

    Raises `UsageError`, or `HarnessError` if the host lacks something.
    """
    from cluster.doctor import require_host

    require_folder(options.runs)
    require_libraries(scenario)
    for release in releases:
        parse_version(release)
        validate_features(scenario.cluster.formed_on or release, scenario.cluster)
        validate_quorum_on(release, scenario.cluster)
        _refuse_on_release(release, scenario)
    if options.image is not None and any(map(is_build, releases)):
        raise UsageError("an image holds a Kafka of its own", where="--image", got=options.image, next="leave it out")
    check_options(options.runtime, options.image, len({*releases, *scenario.other_releases}))
    # Before the host check: a host without volumes lacks only what these steps need.
    _refuse_without_volumes(options, scenario)
    require_host(step.step for step in scenario.steps)


def prepare(
    options: LaunchOptions, releases: Iterable[str], note: Callable[[str], None], others: Iterable[str] = ()
) -> Launch:
    """Choose a runtime for each release and fetch what is missing.

    `others` are the releases that nodes run only after an upgrade. Reports both to `note`. Raises `EbbtideError`.
    """
    from cluster.clean import describe_leftovers
    from cluster.jars.releases import ensure

    try:
        describe_leftovers()
    except HarnessError as error:
        note(error.in_one_line())
    method, why_not = _power_loss_method(options.power_loss)
    if why_not is not None:
        note(f"power is lost by truncate, not by file system shutdown: {why_not}")
    runtimes = {release: choose_runtime(options.runtime, release, options.image, note) for release in releases}
    local = [release for release, choice in runtimes.items() if choice.name == "local"]
    for other in set(others) - runtimes.keys():
        # Nodes stay on the runtime on which they began.
        if any(choice.name == "docker" for choice in runtimes.values()):
            choose_runtime("docker", other, None, note)
        local += [other] if local else []
    ensure(local, lambda event: note(f"Kafka {event.version}: {event.phase}"))
    return Launch(runs=options.runs, runtimes=runtimes, power_loss_method=method)


def _refuse_on_release(kafka: str, scenario: Scenario) -> None:
    """Raise the first problem of a scenario on a release that its file may not name."""
    on_release = msgspec.structs.replace(scenario, kafka=(kafka,))
    problems = [*validate_upgrades(on_release), *validate_group_protocols(on_release), *validate_log_dirs(on_release)]
    if problems:
        problems[0].where = f"{scenario.name} on Kafka {kafka}, {problems[0].where}"
        raise problems[0]


def _refuse_without_volumes(options: LaunchOptions, scenario: Scenario) -> None:
    needing = sorted({step.step for step in scenario.steps} & DISK_TROUBLES)
    if not needing:
        return
    method, why_not = _power_loss_method(options.power_loss)
    if method == "truncate":
        raise UsageError(
            "these steps need nodes with their own volumes, which a power loss by truncate does not use",
            where=scenario.name,
            got=", ".join(needing) + (f"; {why_not}" if why_not else ""),
            allowed="steps on processes, the network and the wire, requests to Kafka, power-loss and wipe-disk",
            next="ebbtide doctor" if why_not else "run without --power-loss truncate",
        )


def _power_loss_method(asked: str) -> tuple[PowerLossMethod, str | None]:
    """Return the power-loss method, and why the host cannot do a real power loss.

    Raises `HarnessError`.
    """
    from cluster.doctor import why_no_volumes

    if asked == "truncate":
        return "truncate", None
    why_not = why_no_volumes()
    if why_not is None:
        return "fs-shutdown", None
    if asked == "fs-shutdown":
        raise HarnessError(
            "this host cannot lose power by file system shutdown", got=why_not, next="--power-loss truncate"
        )
    return "truncate", why_not
