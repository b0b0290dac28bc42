"""The state of the plugin during one pytest session.

Lets the tests of parallel pytest-xdist workers have their clusters one after the other.

Faults and delays of one cluster would show in the records of another.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest

from ebbtide.folding import fold_line, shown_width
from ebbtide.judging_progress import print_line
from ebbtide.pytest_plugin.markers import MarkerPlace, WrongMarker, releases_in, scenario_in
from ebbtide.pytest_plugin.run_record import CommandFailed, RunRecord
from ebbtide.pytest_plugin.runner import Ability, CommandRunner, Lease, errors_as_failed
from ebbtide.pytest_plugin.settings import Settings

LONGEST_WAIT_S = 4 * 3600.0
"""How long a test waits for the tests of other workers, in seconds."""

TURN = ".pytest-turn"
QUEUE = ".pytest-queue"
"""The lock files, in the folder of run records."""


class ClusterTurn:
    """The turn of one worker.

    A test takes it before its first cluster, and gives it back after its teardown. Without parallel
    workers there is nothing to take.
    """

    def __init__(self, config: pytest.Config, runs: Path) -> None:
        self._config = config
        self._runs = runs
        self._lock = contextlib.ExitStack()
        self._has_it = False

    def take(self) -> None:
        """Wait until no other worker has the turn. Raises `EbbtideError` if that cannot be."""
        if self._has_it or not self._has_parallel_workers():
            return
        from ebbtide.errors import UsageError
        from ebbtide.locks import await_lock

        try:
            self._runs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(
                "cannot make the folder of run records", where=str(self._runs), got=error.strerror
            ) from None
        purpose = "the tests of other workers to be done with their clusters"

        def lock(name: str) -> contextlib.AbstractContextManager[None]:
            return await_lock(self._runs / name, purpose=purpose, timeout_s=LONGEST_WAIT_S)

        # The worker that waits for the turn has the queue. So one that gave the turn back and wants it again comes
        # after it.
        with lock(QUEUE):
            self._lock.enter_context(lock(TURN))
        self._has_it = True

    def give_back(self) -> None:
        """Let a test of another worker have its cluster."""
        self._lock.close()
        self._has_it = False

    def _has_parallel_workers(self) -> bool:
        is_worker = hasattr(self._config, "workerinput")
        return is_worker and os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1") != "1"


T = TypeVar("T")

RUNNER = pytest.StashKey[CommandRunner]()
"""The key in the stash of `pytest.Config` of a runner that replaces the command."""

WORKER_KEPT = "ebbtide_kept"
"""The key in the `workeroutput` of a pytest-xdist worker of the cluster that it kept."""

CLUSTER_FIXTURES = frozenset({"kafka_cluster", "chaos", "topic", "run_record"})
_MARKERS = ("scenario", "chaos", "expected_violation")


class Plugin:
    """The options and results of a session.

    `failed` has the node ids of failed tests, and `shared_failed` says whether one of them used `kafka_cluster`. `kept`
    is the name of the cluster that was kept; `kept_by_workers` are those of pytest-xdist workers.
    """

    def __init__(self, config: pytest.Config, settings: Settings) -> None:
        self._config = config
        self.settings = settings
        self.failed: set[str] = set()
        self.shared_failed = False
        self.kept: str | None = None
        self.kept_by_workers: list[str] = []
        self.turn = ClusterTurn(config, settings.runs)
        self._abilities: Sequence[Ability] | None = None
        self._unpublished: dict[str, str | None] = {}
        self._command_runner = CommandRunner(settings.command, self.say, settings.rules)

    def say(self, line: str) -> None:
        """Print a line for the user at once, although pytest captures what a test prints.

        A worker of pytest-xdist has no terminal, and shares the stderr of its controller, which may have begun a line.
        """
        capture = self._config.pluginmanager.getplugin("capturemanager")
        reporter = self._config.pluginmanager.getplugin("terminalreporter")
        with contextlib.nullcontext() if capture is None else capture.global_and_fixture_disabled():
            if reporter is None or "workerinput" in vars(self._config):
                print_line(f"\nebbtide: {line}")
            else:
                reporter.ensure_newline()
                if getattr(reporter, "_width_of_current_line", 0):
                    reporter.line("")  # with -q, pytest does not know of the dots that it has written
                reporter.write_line(fitted(self._config, f"ebbtide: {line}"))
                reporter.flush()

    @property
    def runner(self) -> CommandRunner:
        """The runner of the command, unless a test of the plugin replaced it."""
        return self._config.stash.get(RUNNER, None) or self._command_runner

    @property
    def keeps_next_cluster(self) -> bool:
        """Whether the next cluster is kept if its test fails."""
        return self.settings.keep_cluster and self.kept is None

    def replays(self, scenario: str) -> bool:
        """Whether a test of `scenario`, a name or a file, repeats the recorded run."""
        recorded = self.settings.scenario
        if recorded is None or scenario == recorded:
            return recorded is not None
        from ebbtide.errors import EbbtideError
        from ebbtide.scenario import catalogue

        try:
            return catalogue.find(scenario).name == recorded
        except EbbtideError:  # reported when the scenario runs
            return False

    def note_failure(self, item: pytest.Item) -> None:
        """Note that the test failed, by itself or by its verdict."""
        fixtures = getattr(item, "fixturenames", ())
        self.failed.add(item.nodeid)
        self.shared_failed |= "kafka_cluster" in fixtures or ("topic" in fixtures and "chaos" not in fixtures)

    def abilities(self) -> Sequence[Ability]:
        """Return what this host can do; asks only once. Raises `CommandFailed`."""
        if self._abilities is None:
            self._abilities = self.runner.abilities()
        return self._abilities

    def why_lacking(self, need: str) -> str | None:
        """Return why the host lacks `need`; None if it has it.

        Raises `WrongMarker` for an unknown need, and `CommandFailed`.
        """
        if need == "root":
            return None if os.geteuid() == 0 else f"user {os.geteuid()} is not root"
        checks = {one.name: one for one in self.abilities()}
        if need not in checks:
            from ebbtide.suggestions import bracketed_suggestion

            known = ["root", *checks]
            raise WrongMarker(
                "needs", f"unknown need {need!r}; allowed: {', '.join(known)}{bracketed_suggestion(need, known)}"
            )
        return checks[need].lacking

    def refuse_unpublished(self, item: pytest.Item) -> None:
        """Raise `WrongMarker` if the test runs on a release of its marker that does not exist.

        Raises nothing if that cannot be found out: the cluster says so when it starts.
        """
        mark = item.get_closest_marker("kafka") or item.get_closest_marker("scenario")
        if mark is None or not uses_clusters(item):
            return
        callspec = getattr(item, "callspec", None)
        kafka = None if callspec is None else callspec.params.get("kafka_version")
        if kafka in (releases_in(mark) if mark.name == "kafka" else scenario_in(mark).kafka):
            if kafka not in self._unpublished:
                self._unpublished[kafka] = self._why_unpublished(kafka)
            if (why := self._unpublished[kafka]) is not None:
                raise WrongMarker(mark.name, why)

    def _why_unpublished(self, kafka: str) -> str | None:
        from ebbtide.releases.known_releases import KNOWN

        if kafka in {one.version for one in KNOWN}:
            return None
        try:
            self.runner.fetch(kafka)
        except CommandFailed as error:
            return str(error) if error.mistake else None
        return None

    def release_cluster(self, lease: Lease, *, failed: bool) -> None:
        """Stop a cluster that is no longer needed, unless it is to be kept."""
        if failed and self.keeps_next_cluster and lease.process is not None and lease.process.exit_code() is None:
            self.kept = lease.name
            # A worker of pytest-xdist has no terminal, so its controller prints the name.
            getattr(self._config, "workeroutput", {})[WORKER_KEPT] = lease.name
            lease.process.let_go()
        else:
            self.runner.close(lease)


def fitted(config: pytest.Config, text: str) -> str:
    """Return a text whose lines fit the terminal of this session, if it has one."""
    reporter = config.pluginmanager.getplugin("terminalreporter")
    if reporter is None or not reporter.isatty:
        return text
    return "\n".join(line for wide in text.split("\n") for line in fold_line(wide, shown_width()))


def uses_clusters(item: pytest.Item) -> bool:
    """Whether the test starts Kafka, as far as a check can see before it runs.

    A project's own fixture with the name `topic` does not count; a fixture that extends `topic` does.
    """
    info = getattr(item, "_fixtureinfo", None)
    definitions = {} if info is None else info.name2fixturedefs
    ours = any(_extends_plugin_fixture(name, definitions[name]) for name in CLUSTER_FIXTURES & definitions.keys())
    return ours or any(item.get_closest_marker(name) for name in _MARKERS)


def _extends_plugin_fixture(name: str, definitions: Sequence[pytest.FixtureDef[object]]) -> bool:
    """Whether the last definition is the plugin's, or extends the plugin's.

    It may extend it in several steps.
    """
    for definition in reversed(definitions):
        if definition.func.__module__.startswith("ebbtide.pytest_plugin"):
            return True
        if name not in definition.argnames:
            break
    return False


def call_or_fail(act: Callable[[], T], place: Callable[[], MarkerPlace] | None = None) -> T:
    """Run `act`; its error fails the test with the message alone.

    `place` returns the marker that asked for `act`, which a mistake names. The report shows no traceback of the plugin.
    """
    try:
        with errors_as_failed():
            return act()
    except CommandFailed as error:
        where = f"\n  where:   {place()}" if error.mistake and place is not None else ""
        # Without `from None` pytest would also show the original error, which says the same.
        raise pytest.fail.Exception(error.full_message() + where, pytrace=False) from None


class JudgedTest:
    """The run of a test: its fixtures set it, and it is judged after the test."""

    def __init__(self) -> None:
        self.run: RunRecord | None = None
        self.finish: Callable[[], RunRecord] | None = None
        """Ends and judges a run that continues until the test is over."""
