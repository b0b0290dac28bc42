"""Starts Spark: small and quick on one machine; any other master by its URL.

A local session listens on loopback only, has no UI, no catalog and no warehouse, and keeps its
scratch files in one temporary folder that is removed with it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from analysis.spark.gateway import (
    connect,
    environment,
    give_hadoop_a_user,
    start_by_scripts,
    what_failed,
)
from analysis.spark.heap import out_of_memory_error
from analysis.spark.java_start import LOCAL_MASTER, QUICK, START_FLAGS, JavaStart, is_local, spark_home
from analysis.spark.parts import settings_for
from ebbtide.errors import EbbtideError, HarnessError
from ebbtide.signals import defer_signals, is_interrupt

_INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_INTERPRETED_ROWS_MAX = 400_000
"""Above so many rows, compiled plans save more than compiling them costs."""
_ONE_PART_ROWS_MAX = 100_000
"""Up to so many rows, planning and starting the tasks of a shuffle takes longer than one core with all rows."""
_ROWS_OF_A_PART = 5_000_000
_PARTS_MIN, _PARTS_MAX = 2, 200

_DYING_S = 2.0
"""How long a JVM with which a call failed may take to end; then it did not die of this."""
_JVM_EXIT_S = 60.0
_ARCHIVE_EXIT_S = 600.0
"""The first JVM on a host writes its class archive as it exits: 5 to 10 s, and minutes on a busy host.

One that is killed meanwhile leaves no archive, so every later session would start as slowly.
"""
_CALL_SITE = ("callSite.short", "callSite.long")
_RETAINED = {
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "100",
    "spark.sql.ui.retainedExecutions": "10",
}
"""What Spark remembers of work that has ended, for pages that it does not show here.

Its defaults are 1,000 of each and 100,000 tasks, which a process that judges many records gathers.
"""


@contextmanager
def session(
    master: str | None = None,
    *,
    jars: Sequence[Path] = (),
    many: bool = False,
    start: JavaStart | None = None,
) -> Iterator[SparkSession]:
    """Open a Spark session for a block; a session that was there already goes on.

    `master` is a Spark master URL, by default two threads of this machine. `jars`: more than Spark's own; `many`: it
    judges dozens of records; `start`: its Java process, if that boots already. Raises `HarnessError` when there is no
    Java 17 or newer, or Spark does not start.
    """
    if SparkContext._active_spark_context is not None:
        with _explain_lack_of_memory(Jvm.running):
            yield SparkSession.builder.getOrCreate()
        return
    jvm = None
    try:
        # An interrupt comes before the start or after it, so that no JVM is left.
        with defer_signals():
            jvm = Jvm(master or LOCAL_MASTER, jars=jars, many=many, start=start)
        with _explain_lack_of_memory(jvm):
            yield jvm.spark
    finally:
        if jvm is not None:
            jvm.close()


@contextmanager
def _explain_lack_of_memory(jvm: Jvm | None) -> Iterator[None]:
    """Raise a `HarnessError` that says so if the block fails because the JVM ran out of memory."""
    try:
        yield
    except Exception as error:
        if jvm is None or isinstance(error, EbbtideError) or is_interrupt(error):
            raise
        explained = jvm.out_of_memory_error(error)
        if explained is None:
            raise
        raise explained from None


def fits_one_part(rows: int) -> bool:
    """Return whether one core goes through so many rows sooner than two share them."""
    return rows <= _ONE_PART_ROWS_MAX


@contextmanager
def plans_for(spark: SparkSession, rows: int, *, one_part: bool = False) -> Iterator[None]:
    """Make the plans of the block suit tables of so many rows.

    With few rows, compiling a plan takes longer than running it. `one_part`: all rows stay in one
    part (the module parts).
    """
    parts = 1 if one_part else min(_PARTS_MAX, max(_PARTS_MIN, rows // _ROWS_OF_A_PART))
    settings = settings_for(parts) | (_INTERPRETED if rows <= _INTERPRETED_ROWS_MAX else {})
    before = {key: spark.conf.get(key) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, was in before.items():
            spark.conf.set(key, was or "")


@contextmanager
def one_call_site(spark: SparkSession) -> Iterator[None]:
    """Give all plans of the block, in this thread, the same call site.

    Spark otherwise searches the stack at each step of a plan. It shows call sites in its UI and its log.
    """
    context = spark.sparkContext
    before = {form: context.getLocalProperty(form) for form in _CALL_SITE}
    for form in _CALL_SITE:
        context.setLocalProperty(form, "ebbtide")
    try:
        yield
    finally:
        for form, was in before.items():
            context.setLocalProperty(form, was)  # type: ignore[arg-type]  # None removes it


class Jvm:
    """A Java process with a Spark session and a scratch folder; `close` ends both.

    `running` is the one of this process, if there is one. The end of the process closes it too.

    `has_common_classes`: whether it has loaded what judging a record with losses needs.
    """

    running: ClassVar[Jvm | None] = None
    has_common_classes = False

    def __init__(
        self,
        master: str,
        *,
        jars: Sequence[Path] = (),
        many: bool = False,
        start: JavaStart | None = None,
    ) -> None:
        # py4j logs the traceback of every call that an interrupt cut short to the root logger,
        # which would print it.
        logging.getLogger().addHandler(logging.NullHandler())
        self._gateway: Any = None
        self._start = start = start or JavaStart(master, many=many, jars=jars)
        atexit.register(self.close)
        variables = {
            "SPARK_HOME": str(spark_home()),
            "JAVA_HOME": str(start.java.executable.resolve().parent.parent),
            "SPARK_LAUNCHER_OPTS": f"{START_FLAGS} {QUICK}",
        }
        if is_local(master):
            variables["SPARK_LOCAL_IP"] = "127.0.0.1"
        conf = _conf(master, start.scratch, start.flags, start.heap_mib)
        if jars:
            conf.set("spark.jars", ",".join(map(str, jars)))

        def begin() -> SparkSession:
            self._gateway = connect(start) if start.is_direct else start_by_scripts(conf, start.said)
            give_hadoop_a_user(self._gateway)
            return SparkSession(SparkContext(gateway=self._gateway, conf=conf))

        try:
            # A Ctrl-C in the middle would leave a JVM that nobody knows of. In the main thread
            # SparkContext handles it itself, and what it cuts short looks like a failed start; in
            # another thread it leaves signals alone.
            with defer_signals(), environment(variables), ThreadPoolExecutor(1, "Spark start") as starter:
                if start.process is None:
                    start.launch()
                self.spark = starter.submit(begin).result()
            Jvm.running = self
        except (KeyboardInterrupt, SystemExit):
            self.close()
            raise
        except Exception as error:
            cause = what_failed(error, start.read_said())  # a JVM that has ended cannot say it
            self.close()
            raise HarnessError(
                "Spark does not start",
                where=f"master {master}, {start.java.executable} ({start.java.version})",
                got="\n           ".join(cause),
                next="ebbtide analyze --help    (--master names another Spark master)",
            ) from (None if isinstance(error, PySparkException) else error)

    @property
    def is_first(self) -> bool:
        """Whether there was no class archive for it, so that it may write one."""
        return self._start.archive.part is not None

    @property
    def lacks_common_classes(self) -> bool:
        """Whether it is a first session that archives nothing yet.

        Later sessions would load again what the archive lacks, and none would write another.
        """
        return self.is_first and not self.has_common_classes

    def has_ended(self, within_s: float = 0.0) -> bool:
        """Return whether the Java process has ended, or ends within this time."""
        if self._gateway is None:
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._gateway.proc.wait(within_s)
        return self._gateway.proc.poll() is not None

    def close(self) -> None:
        """Stop Spark, end the Java process and remove the scratch folder.

        A second call does nothing.
        """
        with defer_signals():  # a sender of one SIGTERM, such as timeout(1), may send a second
            if Jvm.running is self:
                Jvm.running = None
            gateway, self._gateway = self._gateway, None
            if gateway is not None:
                self._end(gateway)
            self._start.close()
            atexit.unregister(self.close)

    def out_of_memory_error(self, error: Exception) -> HarnessError | None:
        """Return the error to raise if `error` came because the JVM ran out of memory, else None."""
        gateway = self._gateway
        return out_of_memory_error(
            error,
            heap_mib=self._start.heap_mib,
            said=self._start.read_said,
            exit_status=lambda: _exit_status(gateway),
        )

    def _end(self, gateway: Any) -> None:
        context = SparkContext._active_spark_context
        archives = self.is_first and self.has_common_classes
        if self._start.is_direct and not archives:
            # All that it would still do is to remove its files from the scratch folder, which takes half a second.
            gateway.proc.kill()
            gateway.proc.wait()
            with contextlib.suppress(Exception):  # `shutdown` would leave the broken connection open
                gateway.close(keep_callback_server=True)
        elif context is not None:
            # After an interrupted call the connection may be of no use; the process then ends because
            # its stdin is empty.
            with contextlib.suppress(Exception), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.spark.stop()
        server = getattr(context, "_accumulatorServer", None)
        if server is not None:  # it looks only twice a second whether it is to end
            Thread(target=server.shutdown, daemon=True).start()
        # Without `stop`, which ends halfway if the JVM has died, a new session would take the dead one for its own.
        SparkContext._active_spark_context = None
        SparkSession._instantiatedSession = None
        SparkSession._activeSession = None
        SparkContext._gateway = None
        SparkContext._jvm = None
        with contextlib.suppress(Exception):
            gateway.shutdown()
        gateway.proc.stdin.close()
        try:
            gateway.proc.wait(_ARCHIVE_EXIT_S if archives else _JVM_EXIT_S)
        except subprocess.TimeoutExpired:
            gateway.proc.kill()
            gateway.proc.wait()
        if archives and gateway.proc.returncode == 0:  # a killed JVM has written none
            self._start.archive.finish()


def _exit_status(gateway: Any) -> int | None:
    """Return the exit status of the JVM; None if it does not end at once, or was closed."""
    if gateway is None:
        return None
    with contextlib.suppress(subprocess.TimeoutExpired):
        return int(gateway.proc.wait(_DYING_S))
    return None


def _conf(master: str, scratch: Path, jvm_flags: Sequence[str], heap: int) -> SparkConf:
    """Return the settings of a session.

    Those for one machine trade Spark's adaptive planning for fewer, smaller jobs.
    """
    settings = {
        "spark.master": master,
        "spark.app.name": "ebbtide",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.driver.extraJavaOptions": " ".join(jvm_flags),
        "spark.driver.memory": f"{heap}m",
    } | _RETAINED
    if is_local(master):
        settings |= {
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.local.dir": str(scratch),
            "spark.sql.adaptive.enabled": "false",
            # With either of them, Spark clones the session for each frame that it keeps, and never drops the clone.
            "spark.sql.adaptive.applyFinalStageShuffleOptimizations": "false",
            "spark.sql.sources.bucketing.autoBucketedScan.enabled": "false",
            "spark.sql.inMemoryColumnarStorage.compressed": "false",
            "spark.python.sql.dataFrameDebugging.enabled": "false",
            "spark.sql.dataFrameQueryContext.enabled": "false",
        }
    conf = SparkConf(loadDefaults=False)
    for key, value in settings.items():
        conf.set(key, value)
    return conf
