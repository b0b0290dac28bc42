"""The Spark session is quiet, local, and leaves nothing behind."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pyspark
import pytest
from pyspark.sql import SparkSession
from quick import quick_first

from analysis.spark.class_archive import KEPT_MAX, class_archive
from analysis.spark.java_start import (
    SETTINGS_OF_OTHERS,
    JavaStart,
    class_path,
    has_settings_of_others,
    is_first_session,
)
from analysis.spark.session import Jvm, one_call_site, session
from ebbtide.errors import HarnessError
from ebbtide.java import Java
from ebbtide.scratch import ScratchFolder
from ebbtide.signals import unwind_on_signals

JAVA = Java(executable=Path("/usr/bin/java"), version="17.0.1", major=17)
JARS = "/opt/spark/jars"

ONE_JOB = """
import gc, os, signal, sys, tempfile
from analysis.spark.session import Jvm, session
with session() as spark:
    java = Jvm.running._gateway.proc.pid
    assert os.getpriority(os.PRIO_PROCESS, java) == os.nice(0), "nicer than the command that waits for it"
    assert spark.range(10).count() == 10
    gc.collect()
assert os.environ.get("SPARK_HOME") is None
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
print("left:", sorted(os.listdir()), sorted(os.listdir(tempfile.gettempdir())))
"""


@pytest.mark.spark
def test_a_session_says_nothing_and_leaves_nothing_behind(tmp_path: Path) -> None:
    here, temporary = tmp_path / "here", tmp_path / "tmp"
    here.mkdir()
    temporary.mkdir()
    environment = {key: value for key, value in os.environ.items() if key != "SPARK_HOME"}
    done = subprocess.run(
        [sys.executable, "-c", ONE_JOB],
        cwd=here,
        env=environment | {"TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines() == ["left: [] []"]
    assert done.stderr == ""


STARTING = """
import os, signal, sys
from pyspark.sql import SparkSession
from analysis.spark.session import session
from ebbtide.signals import unwind_on_signals

def fails(self, context, *rest):
    try:
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
    except KeyboardInterrupt:
        pass  # Spark's Java gateway may make an error of its own of it
    raise RuntimeError("An error occurred while calling SparkSession")

SparkSession.__init__ = fails
try:
    with unwind_on_signals(), session():
        pass
except BaseException as end:
    print("ended:", repr(end))
"""


@pytest.mark.spark
@pytest.mark.parametrize(
    ("name", "end"), quick_first([("SIGTERM", "SystemExit(143)"), ("SIGINT", "KeyboardInterrupt()")])
)
def test_a_start_that_fails_of_a_signal_was_interrupted(tmp_path: Path, name: str, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", STARTING, name],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.stdout, done.stderr) == (f"ended: {end}\n", "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_a_session_listens_on_loopback_only(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    jvm = next(child for child in psutil.Process().children() if "java" in child.name())
    listening = [one for one in jvm.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
    assert listening
    assert {one.laddr.ip.removeprefix("::ffff:") for one in listening} <= {"127.0.0.1", "::1"}


@pytest.mark.spark
def test_a_kept_frame_is_planned_in_the_session_itself_and_not_in_a_clone_that_stays(spark: SparkSession) -> None:
    kept = spark.range(10).persist()
    plan = kept._jdf.queryExecution().withCachedData().cacheBuilder().cachedPlan()  # type: ignore[operator]
    assert plan.session().equals(spark._jsparkSession)
    kept.unpersist()


@pytest.mark.spark
def test_a_session_inside_another_is_the_same_and_does_not_end_it(spark: SparkSession) -> None:
    with session() as inner:
        assert inner.sparkContext is spark.sparkContext
    with session() as again:
        assert again.range(2).count() == 2


class _Gateway:
    """A JVM that is sent a second SIGTERM while it is waited for, and ends with `returncode`."""

    def __init__(self, returncode: int) -> None:
        self.proc: Any = SimpleNamespace(stdin=io.BytesIO(), wait=self._wait, returncode=None)
        self._returncode = returncode
        self.waited_s = 0.0

    def shutdown(self) -> None:
        pass

    def _wait(self, timeout_s: float) -> None:
        self.waited_s = timeout_s
        os.kill(os.getpid(), signal.SIGTERM)
        self.proc.returncode = self._returncode


def _jvm(gateway: _Gateway, *, is_direct: bool, part: Path | None, finish: Callable[[], None] = lambda: None) -> Jvm:
    """Return a session whose Java process is the gateway's, with a scratch folder of its own."""
    start = JavaStart.__new__(JavaStart)
    start.is_direct, start.process, start._scratch = is_direct, None, ScratchFolder()
    start.scratch = start._scratch.path
    start.archive = SimpleNamespace(part=part, finish=finish)  # type: ignore[assignment]
    jvm = Jvm.__new__(Jvm)
    jvm._gateway, jvm._start, jvm._first_use = gateway, start, None
    jvm.has_common_classes = part is not None
    return jvm


@pytest.fixture
def default_sigterm() -> Iterator[None]:
    """SIGTERM as at the start of a process, whatever an earlier test in this process made of it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("default_sigterm")
@pytest.mark.parametrize(("returncode", "written"), [(0, 1), (143, 0)])
def test_a_second_signal_interrupts_no_end_and_a_killed_jvm_writes_no_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, returncode: int, written: int
) -> None:
    monkeypatch.setattr("analysis.spark.session.SparkContext", SimpleNamespace(_active_spark_context=None))
    finished: list[int] = []
    jvm = _jvm(_Gateway(returncode), is_direct=False, part=tmp_path / "part", finish=lambda: finished.append(1))
    with unwind_on_signals(), pytest.raises(SystemExit):
        jvm.close()
    assert not jvm._start.scratch.exists()
    assert len(finished) == written


@pytest.mark.usefixtures("default_sigterm")
def test_a_jvm_that_writes_its_archive_has_minutes_to_exit(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("analysis.spark.session.SparkContext", SimpleNamespace(_active_spark_context=None))
    waited = []
    for part in (None, tmp_path / "part"):
        gateway = _Gateway(0)
        jvm = _jvm(gateway, is_direct=part is not None, part=part)
        with unwind_on_signals(), pytest.raises(SystemExit):
            jvm.close()
        waited.append(gateway.waited_s)
    assert waited == [60.0, 600.0]


def test_the_end_of_a_local_session_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("analysis.spark.session.SparkContext", SimpleNamespace(_active_spark_context=None))
    gateway = _Gateway(0)
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE) as gateway.proc:
        _jvm(gateway, is_direct=True, part=None).close()
        assert gateway.proc.returncode == -signal.SIGKILL


def test_a_first_session_that_lacks_the_common_classes_writes_no_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("analysis.spark.session.SparkContext", SimpleNamespace(_active_spark_context=None))
    finished: list[int] = []
    gateway = _Gateway(0)
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.PIPE) as gateway.proc:
        jvm = _jvm(gateway, is_direct=True, part=tmp_path / "part", finish=lambda: finished.append(1))
        jvm.has_common_classes = False
        jvm.close()
        assert gateway.proc.returncode == -signal.SIGKILL, "later sessions would lack them too"
    assert finished == []


def test_without_java_there_is_one_clear_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(HarnessError, match="this host has no Java"), session():
        pass


def test_the_first_session_writes_the_class_archive_and_later_ones_map_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    first = class_archive(JAVA, JARS, tmp_path)
    written = Path(first.flags.split()[0].removeprefix("-XX:ArchiveClassesAtExit="))
    assert written == first.part
    written.write_bytes(b"archive")
    assert class_archive(JAVA, JARS, tmp_path).part is not None
    first.finish()
    later = class_archive(JAVA, JARS, tmp_path)
    assert later.part is None
    mapped = Path(later.flags.split()[0].removeprefix("-XX:SharedArchiveFile="))
    assert mapped.read_bytes() == b"archive"
    other = Java(executable=JAVA.executable, version="21.0.1", major=21)
    assert class_archive(other, JARS, tmp_path).part is not None


@pytest.mark.parametrize("of_folder", [False, True], ids=["a class path of jars", "a folder of jars"])
def test_spark_that_was_installed_again_has_an_archive_of_its_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, of_folder: bool
) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "cache"))
    jars = [tmp_path / name for name in ("one.jar", "other.jar")]
    for jar in jars:
        jar.write_bytes(b"jar")
    on_path = str(tmp_path) if of_folder else ":".join(map(str, jars))
    first = class_archive(JAVA, on_path, tmp_path)
    assert first.part is not None
    first.part.touch()
    first.finish()
    assert class_archive(JAVA, on_path, tmp_path).part is None
    os.utime(jars[1], (1_700_000_000, 1_700_000_000))
    assert class_archive(JAVA, on_path, tmp_path).part is not None, "a JVM maps no archive of other jars"


def test_the_archives_used_last_are_kept_when_another_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    written = []
    for number in range(KEPT_MAX):
        archive = class_archive(JAVA, f"{JARS}/{number}", tmp_path)
        assert archive.part is not None
        assert archive.archive is not None
        archive.part.touch()
        archive.finish()
        os.utime(archive.archive, (number, number))
        written.append(archive.archive)
    killed, under_way = written[0].with_name("0.1.part"), written[0].with_name("1.1.part")
    for part in (killed, under_way):
        part.touch()
    os.utime(killed, (0, 0))
    class_archive(JAVA, f"{JARS}/0", tmp_path)
    another = class_archive(JAVA, f"{JARS}/another", tmp_path)
    assert another.part is not None
    another.part.touch()
    another.finish()
    assert sorted((tmp_path / "spark").iterdir()) == sorted(
        [written[0], *written[2:], another.archive or Path(), under_way]
    )


@pytest.mark.parametrize(
    ("master", "jars", "writes"),
    [("local[2]", (), True), ("spark://elsewhere:7077", (), False), ("local[2]", (Path("connector.jar"),), False)],
    ids=["this host", "other hosts, which do not see the made record", "more jars"],
)
def test_only_a_session_of_this_host_with_sparks_own_jars_writes_an_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, master: str, jars: Sequence[Path], writes: bool
) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    start = JavaStart(master, jars=jars)
    start.close()
    assert (start.archive.part is not None) == writes


def test_a_session_is_the_first_of_a_host_until_one_has_ended(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    monkeypatch.setattr("analysis.spark.java_start.require_java", lambda: JAVA)
    assert is_first_session()
    first = class_archive(JAVA, class_path(Path(pyspark.__file__).parent), tmp_path)
    assert first.part is not None
    first.part.touch()
    assert is_first_session()
    first.finish()
    assert not is_first_session()
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "another"))
    assert is_first_session()
    assert not is_first_session("spark://elsewhere:7077")
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "a folder that the JVM cannot be told of"))
    assert not is_first_session()


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR", "PYSPARK_SUBMIT_ARGS"])
def test_spark_s_own_scripts_start_the_jvm_where_they_have_settings_to_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    for other in SETTINGS_OF_OTHERS:
        monkeypatch.delenv(other, raising=False)
    assert not has_settings_of_others(tmp_path)
    monkeypatch.setenv(name, str(tmp_path))
    assert has_settings_of_others(tmp_path)
    monkeypatch.delenv(name)
    (tmp_path / "conf").mkdir()
    assert has_settings_of_others(tmp_path)


def test_a_jvm_that_wrote_no_archive_is_no_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path))
    class_archive(JAVA, JARS, tmp_path).finish()
    assert class_archive(JAVA, JARS, tmp_path).part is not None


@pytest.mark.spark
def test_plans_of_the_block_have_one_call_site_and_then_that_of_the_caller_again(spark: SparkSession) -> None:
    context = spark.sparkContext
    context.setLocalProperty("callSite.short", "mine")
    try:
        with one_call_site(spark):
            assert spark.range(1)._jdf.toJavaRDD().rdd().getCreationSite() == "ebbtide"  # type: ignore[operator]
            assert context.getLocalProperty("callSite.long") == "ebbtide"
        assert spark.range(1)._jdf.toJavaRDD().rdd().getCreationSite() == "mine"  # type: ignore[operator]
        assert context.getLocalProperty("callSite.long") is None
    finally:
        context.setLocalProperty("callSite.short", None)  # type: ignore[arg-type]
