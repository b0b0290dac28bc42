"""What the plugin knows during one pytest session."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from ebbtide.pytest_plugin.run_record import RunRecord
from ebbtide.pytest_plugin.runner import Ability, CommandRunner, Failed, Lease, Runner, failing
from ebbtide.pytest_plugin.settings import Settings

T = TypeVar("T")

RUNNER = pytest.StashKey[Runner]()
"""In the stash of `pytest.Config`: who is asked instead of the command."""

WORKER_KEPT = "ebbtide_kept"
"""In the `workeroutput` of a pytest-xdist worker: the cluster that it left up."""

CLUSTER_FIXTURES = frozenset({"kafka_cluster", "chaos", "topic", "run_record"})
_MARKERS = ("scenario", "chaos", "expected_violation")


class Plugin:
    """`failed` are the node ids of tests that did, `shared_failed` says whether one of them used `kafka_cluster`.

    `kept` is the name of the cluster that was left up.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self.settings = settings
        self.failed: set[str] = set()
        self.shared_failed = False
        self.kept: str | None = None
        self._abilities: Sequence[Ability] | None = None

    @property
    def runner(self) -> Runner:
        """The command, unless a test of the plugin put something else there."""
        return self._config.stash.get(RUNNER, None) or CommandRunner(self.settings.command)

    @property
    def keeping(self) -> bool:
        """Whether the next cluster is to be left up if its test fails."""
        return self.settings.keep_cluster and self.kept is None

    def replays(self, scenario: str) -> bool:
        """Whether a test of `scenario`, a name or a file, is to have the recorded run again."""
        recorded = self.settings.scenario
        if recorded is None or scenario == recorded:
            return recorded is not None
        from ebbtide.errors import EbbtideError
        from ebbtide.scenario import catalogue

        try:
            return catalogue.find(scenario).name == recorded
        except EbbtideError:  # said where it is to be run
            return False

    def note_failure(self, item: pytest.Item) -> None:
        """The test failed, by itself or by its verdict."""
        fixtures = getattr(item, "fixturenames", ())
        self.failed.add(item.nodeid)
        self.shared_failed |= "kafka_cluster" in fixtures or ("topic" in fixtures and "chaos" not in fixtures)

    def abilities(self) -> Sequence[Ability]:
        """What this host can do, asked once. Raises `Failed`."""
        if self._abilities is None:
            self._abilities = self.runner.abilities()
        return self._abilities

    def lacking(self, need: str) -> str | None:
        """Why the host does not have `need`; None: it does. Raises `Failed` for a need that is none."""
        if need == "root":
            return None if os.geteuid() == 0 else f"user {os.geteuid()} is not root"
        checks = {one.name: one for one in self.abilities()}
        if need not in checks:
            from ebbtide.scenario.check import suggestion

            known = ["root", *checks]
            raise Failed(f"nobody knows the need {need!r}; allowed: {', '.join(known)}{suggestion(need, known)}")
        return checks[need].lacking

    def ends(self, lease: Lease, *, failed: bool) -> None:
        """A cluster is no longer needed: end it, unless it is the one that is to be left up."""
        if failed and self.keeping and lease.process is not None and lease.process.exit_code() is None:
            self.kept = lease.name
            # A worker of pytest-xdist has no terminal to say so.
            getattr(self._config, "workeroutput", {})[WORKER_KEPT] = lease.name
            lease.process.let_go()
        else:
            self.runner.close(lease)


def uses_clusters(item: pytest.Item) -> bool:
    """Whether the test starts Kafka, as far as can be seen before it runs.

    A project's own fixture that happens to be called `topic` does not; one that extends `topic` does.
    """
    info = getattr(item, "_fixtureinfo", None)
    definitions = {} if info is None else info.name2fixturedefs
    ours = any(_reaches_ours(name, definitions[name]) for name in CLUSTER_FIXTURES & definitions.keys())
    return ours or any(item.get_closest_marker(name) for name in _MARKERS)


def _reaches_ours(name: str, definitions: Sequence[pytest.FixtureDef[object]]) -> bool:
    """Whether the last definition is the plugin's, or asks for the one before it, and so on, and that is."""
    for definition in reversed(definitions):
        if definition.func.__module__.startswith("ebbtide.pytest_plugin"):
            return True
        if name not in definition.argnames:
            break
    return False


def too_parallel(config: pytest.Config) -> str | None:
    """Why tests with clusters cannot run in this pytest-xdist worker; None: they can."""
    workers = os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")
    if not hasattr(config, "workerinput") or workers == "1":
        return None
    return (
        f"ebbtide's clusters cannot run in {workers} pytest-xdist workers: their faults and the time they take would "
        "show in each other's records; run these tests without -n, or with -n 1"
    )


def attempt(act: Callable[[], T]) -> T:
    """Run `act`; where it fails, the test ends with its words instead of a traceback of the plugin's."""
    try:
        with failing():
            return act()
    except Failed as error:
        # pytest would show what it came from, too, which says the same.
        raise pytest.fail.Exception(error.told(), pytrace=False) from None


class JudgedTest:
    """What a test's run came to: filled by its fixtures, concluded after the test."""

    def __init__(self) -> None:
        self.run: RunRecord | None = None
        self.finish: Callable[[], RunRecord] | None = None
        """For a run that goes on until the test is over."""
