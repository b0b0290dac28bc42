"""The `kafka_watch` fixture: a watch of a cluster that the test brought up itself.

The test starts its cluster with testcontainers, compose or otherwise, starts the watch, and breaks the cluster. After
the test the watch reads everything, and its record is judged.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from ebbtide.command import COMMAND
from ebbtide.folding import unfolded_environment
from ebbtide.judging_progress import ProgressListener, print_line
from ebbtide.pytest_plugin.run_record import CommandFailed, RunRecord, read_record
from ebbtide.scratch import PYTEST, scratch_folder
from ebbtide.suggestions import bracketed_suggestion

START_TIMEOUT_S = 120.0
END_TIMEOUT_S = 600.0
"""For the final read, the replicas' logs and the judgement."""
CLOSE_TIMEOUT_S = 120.0
"""For the end of the clients, and for the topic to be deleted."""
SAY_TIMEOUT_S = 60.0
_TAIL_LINES = 20
_BEGUN, _NAMED = "watching for", "watch "
_NOT_OF_USERS = ("command", "say")
"""Keywords of `start_watch` that only the plugin and its tests give."""

PROMISE = """
[topics.t]
partitions = {partitions}
replication_factor = {replication_factor}
min_isr = {min_isr}

[[producers]]
id = 1
topic = "t"
rate_per_s = {rate_per_s}

[[consumers]]
id = 1
topics = ["t"]

[[predictions]]
kafka = ">=3.3"
clause = "a test of the user: nothing that was committed is lost"
loss = {{ committed = "none" }}
"""
"""The workload of a watch for which the test gives none."""


class Watch:
    """A watch that goes on. `record` is the folder of its run record."""

    def __init__(
        self, words: Sequence[str], runs: Path, command: Sequence[str], say: Callable[[str], None] = print_line
    ) -> None:
        """Start it, and return once its clients send. Raises `CommandFailed`.

        `say` gets a line every 10 s while it judges.
        """
        self._progress = ProgressListener(say)
        self._command = tuple(command)
        descriptor, log = tempfile.mkstemp(prefix="ebbtide-watch-")
        self._log = Path(log)
        with os.fdopen(descriptor, "wb") as output:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=unfolded_environment(),
                start_new_session=True,
            )
        try:
            self._await(lambda: _BEGUN in self._output(), START_TIMEOUT_S, "the watch to begin")
        except BaseException:
            self.close()
            raise
        named = next(line for line in self._output().splitlines() if _NAMED in line)
        self.record = runs / named.partition(_NAMED)[2].strip()

    def mark(self, text: str) -> None:
        """Note what the test does to the cluster now, as a step of the record. Raises `CommandFailed`."""
        self._say("mark", text)

    def finish(self) -> RunRecord:
        """End the watch with the final read, and return the judged record. Raises `CommandFailed`."""
        if self._process.poll() is None:
            self._say("end")
        self._await(lambda: self._process.poll() is not None, END_TIMEOUT_S, "the watch to end")
        if self._process.returncode > 2:
            raise CommandFailed(self._tail())
        return read_record(self.record)

    def close(self) -> None:
        """End the watch at once; it deletes its topic. Does nothing if it has ended.

        A watch that does not end in time is killed; `ebbtide clean` then deletes its topic.
        """
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(CLOSE_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._log.unlink(missing_ok=True)

    def _say(self, *words: str) -> None:
        command = [*self._command, "watch", *words, "--runs", str(self.record)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=SAY_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise CommandFailed(f"`ebbtide watch {words[0]}` did not end within {SAY_TIMEOUT_S:g} s") from None
        if done.returncode:
            raise CommandFailed(done.stderr.strip() or self._tail())

    def _await(self, condition: Callable[[], bool], timeout_s: float, awaited: str) -> None:
        from ebbtide.waiting import WaitExpired, wait_until

        def holds() -> bool:
            self._progress.hear(self._output())
            if condition():
                return True
            if self._process.poll() is not None:
                raise CommandFailed(self._tail(), mistake=self._process.returncode == 4)
            return False

        try:
            wait_until(holds, awaited=awaited, timeout_s=timeout_s, last_seen=self._tail, poll_s=0.1)
        except WaitExpired as error:
            raise CommandFailed(str(error)) from None

    def _output(self) -> str:
        return self._log.read_text(errors="replace")

    def _tail(self) -> str:
        return "\n".join(self._output().splitlines()[-_TAIL_LINES:])


def start_watch(
    bootstrap: str,
    *,
    runs: Path,
    controllers: str | None = None,
    command_config: Path | None = None,
    kafka: str | None = None,
    workload: Path | None = None,
    at_most: str = "1h",
    command: Sequence[str] = COMMAND,
    say: Callable[[str], None] = print_line,
    partitions: int = 1,
    replication_factor: int = 3,
    min_isr: int = 2,
    rate_per_s: float = 50,
) -> Watch:
    """Start a watch of the cluster at `bootstrap`.

    `workload` is a scenario file without steps. Without it, there is one topic with the last four settings, and any
    committed loss fails the test. Raises `CommandFailed`.
    """
    options = {"--controllers": controllers, "--command-config": command_config, "--kafka": kafka}
    words = [*command, "watch", "--bootstrap", bootstrap, "--for", at_most, "--runs", str(runs), "--json"]
    words += [str(word) for flag, value in options.items() if value is not None for word in (flag, value)]
    if workload is not None:
        return Watch([*words, str(workload)], runs, command, say)
    with scratch_folder(PYTEST) as folder:
        file = folder / "watch.toml"
        text = PROMISE.format(
            partitions=partitions, replication_factor=replication_factor, min_isr=min_isr, rate_per_s=rate_per_s
        )
        file.write_text(text)
        try:
            return Watch([*words, str(file)], runs, command, say)
        except CommandFailed as error:
            raise error.about("kafka_watch", file) from None


def describe_unknown_settings(settings: Iterable[str]) -> str | None:
    """Return the error for keywords that `start_watch` does not take; None if it takes all."""
    known = ["runs", *(name for name in start_watch.__kwdefaults__ or {} if name not in _NOT_OF_USERS)]
    unknown = [name + bracketed_suggestion(name, known) for name in settings if name not in known]
    if not unknown:
        return None
    return f"kafka_watch takes the keywords {', '.join(sorted(known))}; got {', '.join(unknown)}"
