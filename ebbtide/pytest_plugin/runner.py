"""Runs the `ebbtide` command for the plugin, in processes of its own.

So pytest itself loads neither Spark nor docker, and needs no privileges that the command cannot get. Tests of the
plugin replace the `CommandRunner`.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from ebbtide.command import COMMAND
from ebbtide.folding import unfolded_environment
from ebbtide.judging_process import JudgingProcess
from ebbtide.judging_progress import ProgressListener, print_line
from ebbtide.memory import how_ended
from ebbtide.pytest_plugin.kafka_cluster import Chaos, KafkaCluster
from ebbtide.pytest_plugin.markers import UNPLACED_CHAOS, MarkerPlace
from ebbtide.pytest_plugin.run_record import CommandFailed, RunRecord, read_record
from ebbtide.pytest_plugin.settings import Settings
from ebbtide.scratch import PYTEST, scratch_folder

if TYPE_CHECKING:
    from ebbtide.daemon.messages import ClusterStatus
    from ebbtide.daemon.starting import DaemonProcess
    from ebbtide.scenario.model import Scenario

_TAIL_LINES = 20
_LISTEN_EVERY_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Ability:
    """One check of `ebbtide doctor`.

    `lacking` says what is missing, None if nothing is.
    """

    name: str
    lacking: str | None
    disables: tuple[str, ...] = ()


@dataclass(kw_only=True)
class Lease:
    """A cluster that runs for a test or a session; `process` is its daemon."""

    name: str
    process: DaemonProcess | None = None
    tied: bool = True


class CommandRunner:
    """What the plugin needs from the command line `command`. Its methods raise `CommandFailed`.

    `say` gets a line every 10 s while a run is judged. Runs are judged with the rules in the files `rules`, too.
    """

    def __init__(
        self,
        command: Sequence[str] = COMMAND,
        say: Callable[[str], None] = print_line,
        rules: Sequence[Path] = (),
    ) -> None:
        self._command = tuple(command)
        self._say = say
        self._judge = JudgingProcess(self._command, options=_rule_options(rules), report=say)

    def abilities(self) -> Sequence[Ability]:
        """Call `ebbtide doctor --json`; return what this host can do."""
        import json

        done = _run_to_end([*self._command, "doctor", "--json"])
        if not done.stdout.strip():
            raise self._command_error(done)
        checks = json.loads(done.stdout)
        return [
            Ability(
                name=check["name"],
                lacking=None if check["status"] == "ok" else check["detail"],
                disables=tuple(check["disables"]),
            )
            for check in checks
        ]

    def fetch(self, kafka: str) -> str:
        """Call `ebbtide kafka fetch` for a release that may not be there, or jars; return how it is called."""
        import json

        done = _run_to_end([*self._command, "kafka", "fetch", kafka, "--json"])
        if done.returncode != 0:
            raise self._command_error(done)
        return str(json.loads(done.stdout)[0]["version"])

    def run_scenario(
        self, scenario: str, kafka: str, settings: Settings, *, keep: bool
    ) -> tuple[RunRecord, Lease | None]:
        """Call `ebbtide run`, and judge its record in the session's judging process; with `keep` the cluster stays."""
        import json

        words = ["run", scenario, "--kafka", kafka, "--seed", str(settings.seed), "--json", *_common_options(settings)]
        if keep:
            lease = Lease(name=_new_name(), tied=False)
            status = self._await_cluster([*words, "--keep-cluster", "--cluster", lease.name], lease)
            try:
                return _read_judged(Path(status.record).parent), lease
            except BaseException:
                # No one else knows of a cluster whose run cannot be read.
                with errors_as_failed():
                    self.close(lease)
                raise
        with errors_as_failed():
            self._judge.begin()
        done = _run_to_end([*self._command, *words, "--no-judge"])
        lines = done.stdout.splitlines()
        if done.returncode > 2 or not lines:
            raise self._command_error(done)
        return self._judged(settings.runs / json.loads(lines[-1])["run_id"]), None

    def replay(self, record: Path, settings: Settings) -> RunRecord:
        """Call `ebbtide replay` for a record on its release."""
        import json

        rules = _rule_options(settings.rules)
        words = [*self._command, "replay", str(record), "--json", *rules, *_common_options(settings)]
        done = _run_to_end(words, ProgressListener(self._say).hear)
        if done.returncode > 2 or not done.stdout.strip():
            raise self._command_error(done)
        (again,) = json.loads(done.stdout)["replays"]
        return replace(_read_judged(settings.runs / again["run_id"]), fidelity=again["fidelity"])

    def open_cluster(self, kafka: str, settings: Settings, *, keep: bool) -> tuple[KafkaCluster, Lease]:
        """Call `ebbtide cluster up` without a scenario."""
        lease = Lease(name=_new_name(), tied=not keep)
        status = self._await_cluster(["cluster", "up", "--kafka", kafka, *_daemon_options(lease, settings)], lease)
        return KafkaCluster(status, self._command), lease

    def open_chaos(
        self,
        scenario: Scenario,
        kafka: str,
        settings: Settings,
        *,
        keep: bool,
        marker: MarkerPlace = UNPLACED_CHAOS,
        publish: bool | str = False,
    ) -> tuple[Chaos, Lease]:
        """Call `ebbtide cluster up SCENARIO`, whose run is judged at its end.

        With `publish`, clients on this host reach the brokers, and are judged; "tls": with TLS. An error names the
        place of the `marker` for what Kafka refuses in it.
        """
        from ebbtide.scenario.write import text_of

        lease = Lease(name=_new_name(), tied=not keep)
        with errors_as_failed():
            self._judge.begin()
        with scratch_folder(PYTEST) as folder:
            file = folder / "chaos.toml"
            file.write_text(text_of(scenario))
            words = ["cluster", "up", str(file), "--kafka", kafka, "--seed", str(settings.seed), "--wire", "--clocks"]
            words += ["--publish", "tls:0" if publish == "tls" else "0"] if publish else []
            words += [*(["--keep-cluster"] if keep else []), *_daemon_options(lease, settings)]
            try:
                status = self._await_cluster(words, lease)
            except CommandFailed as error:
                raise error.about(
                    marker.label, file, line_of=marker.line_of, next="correct the marker, and run the test again"
                ) from None
        return Chaos(status, tuple(scenario.topics), self._command), lease

    def judge_chaos(self, chaos: Chaos, lease: Lease) -> RunRecord:
        """Call `ebbtide cluster down`, and judge its record in the session's judging process; a kept cluster stays."""
        from ebbtide.daemon.control import end
        from ebbtide.errors import EbbtideError

        try:
            end(lease.name)
        except EbbtideError:
            # The cluster stopped by itself, and its log says why.
            assert lease.process is not None
            raise CommandFailed(lease.process.last_words()) from None
        if lease.tied and lease.process is not None:
            with errors_as_failed():
                code = lease.process.wait()
            if code != 0:
                raise CommandFailed(f"{how_ended(code)}\n{lease.process.last_words()}")
        return self._judged(chaos.record)

    def close(self, lease: Lease) -> None:
        """Send SIGTERM to the cluster's daemon, which undoes everything; does nothing if it has stopped."""
        if lease.process is not None:
            lease.process.terminate()
            lease.process.forget_log()

    def end_session(self) -> None:
        """End the judging process; the next call starts another one."""
        self._judge.close()

    def _judged(self, record: Path) -> RunRecord:
        with errors_as_failed():
            answer = self._judge.judge(record.absolute())
        if answer.failure is not None:
            raise CommandFailed(f"ebbtide analyze {record}: exit code {answer.exit_code}\n{answer.failure}")
        return _read_judged(record)

    def _await_cluster(self, words: Sequence[str], lease: Lease) -> ClusterStatus:
        from ebbtide.daemon.starting import DaemonProcess

        lease.process = DaemonProcess(words, lease.name, tied=lease.tied, command=self._command)
        with errors_as_failed():
            return lease.process.await_up(ProgressListener(self._say).hear_line)

    def _command_error(self, done: subprocess.CompletedProcess[str]) -> CommandFailed:
        """Return the error of a command: its message, or the last lines of its output.

        The author of a wrong test typed no command, so the message of a mistake shows none.
        """
        from ebbtide.errors import ExitCode

        lines = done.stderr.splitlines()
        error = next((at for at, line in enumerate(lines) if line.startswith("error:")), None)
        command = f"ebbtide {' '.join(done.args[len(self._command) :])}: {how_ended(done.returncode)}"
        mistake = done.returncode == ExitCode.USAGE
        # pytest's summary has the first line only.
        if error is None:
            message = [command, *lines[-_TAIL_LINES:]]
        else:
            message = [lines[error].removeprefix("error: "), *lines[error + 1 :], *([] if mistake else [command])]
        return CommandFailed("\n".join(message), mistake=mistake)


def _rule_options(rules: Sequence[Path]) -> list[str]:
    return [word for rule in rules for word in ("--rule", str(rule))]


def _common_options(settings: Settings) -> list[str]:
    return ["--runs", str(settings.runs), "--runtime", settings.runtime]


def _daemon_options(lease: Lease, settings: Settings) -> list[str]:
    tied = ["--tied"] if lease.tied else []
    names = ["--cluster", lease.name, "--started-by", f"the pytest session of process {os.getpid()}"]
    return [*_common_options(settings), "--foreground", *tied, *names]


def _new_name() -> str:
    return f"pytest-{os.urandom(3).hex()}"


def _read_judged(record: Path) -> RunRecord:
    with errors_as_failed():
        return read_record(record)


@contextlib.contextmanager
def errors_as_failed() -> Iterator[None]:
    """Raise `CommandFailed` instead of `EbbtideError` in the block."""
    from ebbtide.errors import EbbtideError, ExitCode

    try:
        yield
    except EbbtideError as error:
        raise CommandFailed(error.render(), mistake=error.exit_code == ExitCode.USAGE) from None


def _run_to_end(words: Sequence[str], hear: Callable[[str], None] = lambda _: None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, in its own session; on Ctrl-C stop it and wait for it.

    While it runs, `hear` gets all that it has printed to stderr, again and again.
    """
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=unfolded_environment(),
        start_new_session=True,
    ) as process:
        try:
            while True:
                try:
                    out, err = process.communicate(timeout=_LISTEN_EVERY_S)
                    break
                except subprocess.TimeoutExpired as going:
                    hear((going.stderr or b"").decode(errors="replace"))
        except BaseException:
            process.terminate()
            process.communicate()
            raise
    return subprocess.CompletedProcess(words, process.returncode, out, err)
