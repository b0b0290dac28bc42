"""What the plugin has done for it, by the `ebbtide` command in processes of its own.

pytest itself so loads neither Spark nor docker, and needs no powers that the command cannot get by itself. Tests of
the plugin put another `Runner` in its place.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ebbtide.command import COMMAND
from ebbtide.pytest_plugin.chaos import Chaos
from ebbtide.pytest_plugin.kafka_cluster import KafkaCluster
from ebbtide.pytest_plugin.run_record import RunRecord, read_record
from ebbtide.pytest_plugin.settings import Settings

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus
    from ebbtide.daemon.starting import DaemonProcess

_TAIL_LINES = 20
_DEFAULTS: Mapping[str, Any] = {
    "topics": {"t": {}},
    "producers": [{"id": 1, "topic": "t", "rate_per_s": 500}],
    "consumers": [{"id": 1, "topics": ["t"]}],
}
"""What a chaos test has without a marker: one partition, a producer with acks=all, a consumer."""


class Failed(Exception):
    """The command did not do what it was asked; the message is the end of what it said.

    `mistake`: it was asked for what makes no sense, and the message says what would.
    """

    def __init__(self, message: str, *, mistake: bool = False) -> None:
        super().__init__(message)
        self.mistake = mistake

    def told(self) -> str:
        """The message, and whose failure it is."""
        return str(self) if self.mistake else f"the harness failed: {self}"


@dataclass(frozen=True, kw_only=True)
class Ability:
    """One check of `ebbtide doctor`; `lacking`: what is in the way, None where nothing is."""

    name: str
    lacking: str | None
    disables: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Lease:
    """A cluster that is up for a test or a session; `process` is its owner."""

    name: str
    process: DaemonProcess | None = None
    tied: bool = True


class Runner(Protocol):
    """What the plugin asks for."""

    def abilities(self) -> Sequence[Ability]:
        """What this host can do. Raises `Failed`."""

    def run_scenario(
        self, scenario: str, kafka: str, settings: Settings, *, keep: bool
    ) -> tuple[RunRecord, Lease | None]:
        """Run and judge; with `keep` the cluster is still up. Raises `Failed`."""

    def replay(self, record: Path, settings: Settings) -> RunRecord:
        """Run a record's schedule again on its release, each step on the recorded state. Raises `Failed`."""

    def open_cluster(self, kafka: str, settings: Settings, *, keep: bool) -> tuple[KafkaCluster, Lease]:
        """Bring a plain cluster up. Raises `Failed`."""

    def open_chaos(
        self, parts: Mapping[str, Any], kafka: str, expected: Sequence[str] | None, settings: Settings, *, keep: bool
    ) -> tuple[Chaos, Lease]:
        """Bring a cluster with clients up, whose run is judged in the end. Raises `Failed`."""

    def judge_chaos(self, chaos: Chaos, lease: Lease) -> RunRecord:
        """Heal, settle, read everything, and judge. A kept cluster is still up. Raises `Failed`."""

    def close(self, lease: Lease) -> None:
        """End a cluster at once and undo everything; nothing happens when it is gone."""


class CommandRunner:
    """See `Runner`; `command` are the words that start the `ebbtide` command."""

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._command = tuple(command)

    def abilities(self) -> Sequence[Ability]:
        """By `ebbtide doctor --json`."""
        import json

        done = _finished([*self._command, "doctor", "--json"])
        if not done.stdout.strip():
            raise self._failed(done)
        checks = json.loads(done.stdout)
        return [
            Ability(
                name=check["name"],
                lacking=None if check["status"] == "ok" else check["detail"],
                disables=tuple(check["disables"]),
            )
            for check in checks
        ]

    def run_scenario(
        self, scenario: str, kafka: str, settings: Settings, *, keep: bool
    ) -> tuple[RunRecord, Lease | None]:
        """By `ebbtide run`."""
        import json

        words = ["run", scenario, "--kafka", kafka, "--seed", str(settings.seed), "--json", *_common(settings)]
        if keep:
            lease = Lease(name=_new_name(), tied=False)
            status = self._up([*words, "--keep-cluster", "--name", lease.name], lease)
            try:
                return _judged(Path(status.record).parent), lease
            except BaseException:
                # Nobody else knows of a cluster whose run cannot be told.
                with failing():
                    self.close(lease)
                raise
        done = _finished([*self._command, *words])
        lines = done.stdout.splitlines()
        if done.returncode > 2 or not lines:
            raise self._failed(done)
        return _judged(settings.runs / json.loads(lines[-1])["run_id"]), None

    def replay(self, record: Path, settings: Settings) -> RunRecord:
        """By `ebbtide replay`."""
        import json

        done = _finished([*self._command, "replay", str(record), "--json", *_common(settings)])
        if done.returncode > 2 or not done.stdout.strip():
            raise self._failed(done)
        (again,) = json.loads(done.stdout)["replays"]
        return replace(_judged(settings.runs / again["run_id"]), fidelity=again["fidelity"])

    def open_cluster(self, kafka: str, settings: Settings, *, keep: bool) -> tuple[KafkaCluster, Lease]:
        """By `ebbtide cluster up`."""
        lease = Lease(name=_new_name(), tied=not keep)
        status = self._up(["cluster", "up", "--kafka", kafka, *_owning(lease, settings)], lease)
        return KafkaCluster(status, self._command), lease

    def open_chaos(
        self, parts: Mapping[str, Any], kafka: str, expected: Sequence[str] | None, settings: Settings, *, keep: bool
    ) -> tuple[Chaos, Lease]:
        """By `ebbtide cluster up SCENARIO`."""
        from ebbtide.scenario.parse import parse
        from ebbtide.scenario.write import text_of

        scenario = parse(scenario_text(parts, kafka, expected), file="the chaos marker", to_run=True)
        lease = Lease(name=_new_name(), tied=not keep)
        with tempfile.TemporaryDirectory(prefix="ebbtide-") as folder:
            file = Path(folder, "chaos.toml")
            file.write_text(text_of(scenario))
            words = ["cluster", "up", str(file), "--kafka", kafka, "--seed", str(settings.seed), "--wire"]
            status = self._up([*words, *(["--keep-cluster"] if keep else []), *_owning(lease, settings)], lease)
        return Chaos(status, tuple(scenario.topics), self._command), lease

    def judge_chaos(self, chaos: Chaos, lease: Lease) -> RunRecord:
        """By `ebbtide cluster down` and `ebbtide analyze`."""
        from ebbtide.daemon.control import end
        from ebbtide.errors import EbbtideError

        try:
            end(lease.name)
        except EbbtideError:
            # It went down by itself, and its log says why.
            assert lease.process is not None
            raise Failed(lease.process.log.read_text(errors="replace")[-2000:]) from None
        if lease.tied and lease.process is not None:
            with failing():
                code = lease.process.wait()
            if code != 0:
                raise Failed(f"exit code {code}\n" + lease.process.log.read_text(errors="replace")[-2000:])
        done = _finished([*self._command, "analyze", str(chaos.record), "--json"])
        if done.returncode > 2:
            raise self._failed(done)
        return _judged(chaos.record)

    def close(self, lease: Lease) -> None:
        """By SIGTERM to its owner."""
        if lease.process is not None:
            lease.process.terminate()
            lease.process.forget_log()

    def _up(self, words: Sequence[str], lease: Lease) -> ClusterStatus:
        from ebbtide.daemon.starting import DaemonProcess

        lease.process = DaemonProcess(words, lease.name, tied=lease.tied, command=self._command)
        with failing():
            return lease.process.await_up()

    def _failed(self, done: subprocess.CompletedProcess[str]) -> Failed:
        """Its last words, which an error is among."""
        from ebbtide.errors import ExitCode

        lines = done.stderr.splitlines()
        error = next((at for at, line in enumerate(lines) if line.startswith("error:")), None)
        start = error if error is not None else max(0, len(lines) - _TAIL_LINES)
        told = [f"ebbtide {' '.join(done.args[len(self._command) :])}: exit code {done.returncode}", *lines[start:]]
        return Failed("\n".join(told), mistake=done.returncode == ExitCode.USAGE)


def scenario_text(parts: Mapping[str, Any], kafka: str, expected: Sequence[str] | None) -> str:
    """The scenario file of a chaos test, without steps. `expected`: causes of loss, or properties, that it must show.

    Nothing committed may be lost and no HW may go back, unless a violation is expected.
    """
    from typing import get_args

    import tomli_w

    from ebbtide.scenario.model import AllowedCause

    causes = [one for one in expected or () if one in get_args(AllowedCause)]
    prediction: dict[str, Any] = {"kafka": f"=={kafka}", "clause": "the test's own expectation"}
    if len(causes) == 1:
        # That it must come is for the plugin to say: here a run without it would be inconclusive, and so would one
        # in which it only made the HW go back.
        prediction["loss"] = {"cause": causes[0]}
    elif expected is None:
        prediction["loss"] = {"committed": "none"}
        prediction["hw_regression"] = "none"
    return tomli_w.dumps(
        {
            "name": "chaos",
            "title": "A test's own steps",
            "description": "Steps are those that the test took.",
            "kafka": [kafka],
            **_plain({**_DEFAULTS, **parts}),
            "predictions": [prediction],
        }
    )


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else value


def _common(settings: Settings) -> list[str]:
    return ["--runs", str(settings.runs), "--runtime", settings.runtime]


def _owning(lease: Lease, settings: Settings) -> list[str]:
    return [*_common(settings), "--foreground", *(["--tied"] if lease.tied else []), "--name", lease.name]


def _new_name() -> str:
    import os

    return f"pytest-{os.urandom(3).hex()}"


def _judged(record: Path) -> RunRecord:
    with failing():
        return read_record(record)


@contextlib.contextmanager
def failing() -> Iterator[None]:
    """What the harness raises, as `Failed`."""
    from ebbtide.errors import EbbtideError, ExitCode

    try:
        yield
    except EbbtideError as error:
        raise Failed(error.render(), mistake=error.exit_code == ExitCode.USAGE) from None


def _finished(words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in a session of its own; on Ctrl-C it is told to end, and awaited."""
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            out, err = process.communicate()
        except BaseException:
            process.terminate()
            process.communicate()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
