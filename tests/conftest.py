"""Which tests a host can run: without root the marked ones are skipped with the reason; as root none may be.

Those that need Docker are skipped where no daemon answers, unless DOCKER_HOST says that one should.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import re
import signal
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest
from host_turn import HOST

from ebbtide.signals import ENDING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# How long an example takes on a busy host says nothing of the code.
hypothesis.settings.register_profile("ebbtide", deadline=None)
hypothesis.settings.load_profile("ebbtide")

collect_ignore = ["sample_project"]
"""A project of its own, which is tested as a whole."""

PRIORITY, LATER = os.getpriority(os.PRIO_PROCESS, 0), 15
"""The nice value of tests that have the host, and how much higher it is for all others."""

NEED_ROOT = ("live", "root")
TAKE_THE_HOST = (*NEED_ROOT, "rootless")
NEVER_SKIPPED_AS_ROOT = (*NEED_ROOT, "spark")
NO_USER_NAMESPACES = "no user namespaces: "
"""How the reason of a skip begins where the kernel refuses them, as in a chroot: root does not change that."""


def _has_any(item: pytest.Item, markers: tuple[str, ...]) -> bool:
    return any(item.get_closest_marker(name) is not None for name in markers)


def pytest_configure() -> None:
    """Hear Ctrl-C and a closed terminal.

    A shell lets what it starts in the background ignore Ctrl-C, and `nohup` lets it ignore a closed terminal. Every
    command tested here would inherit that.

    Lines are not folded, unless a test sets a width.
    """
    os.environ["COLUMNS"] = "1000"
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _restored_signal_handlers() -> Iterator[None]:
    """Restore the signal handlers that a test changed. Otherwise a signal would no longer end the next test."""
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        if handler is not None and signal.getsignal(number) is not handler:
            signal.signal(number, handler)


@functools.cache
def _lacks_docker() -> str | None:
    """Why tests with Docker cannot run here; None: they can, or must."""
    from cluster.host.containers import DockerError, connect

    if os.geteuid() == 0 and "DOCKER_HOST" in os.environ:
        return None
    try:
        connect().close()
    except DockerError as error:
        return f"{error.what}: tools/docker-daemon make test"
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among thousands of tests, which stay to the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order the files, and skip what needs root or Docker, when there is none."""
    items.sort(key=lambda item: _turn(item.path))
    for item in items:
        if os.geteuid() != 0 and _has_any(item, NEED_ROOT):
            item.add_marker(pytest.mark.skip(reason="needs root"))
        elif item.get_closest_marker("docker") is not None and (lacking := _lacks_docker()) is not None:
            item.add_marker(pytest.mark.skip(reason=lacking))
        if item.get_closest_marker("spark") is not None:
            # PySpark leaves the sockets of its results to the garbage collector, which warns of each.
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"))
            item.add_marker(pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"))


@contextlib.contextmanager
def _session() -> Iterator[SparkSession]:
    """A Spark session whose Java process leaves the cores to tests that have the host.

    It has the quick compiler alone: with both, all tests of a worker together take a tenth more CPU time.
    """
    from analysis.spark.session import session

    priority = os.getpriority(os.PRIO_PROCESS, 0)
    _set_priority(PRIORITY + LATER)
    with session() as spark:
        _set_priority(priority)
        _leave_cores_to_other_sessions()
        yield spark


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """One Spark session for all tests of a worker that need one: it takes seconds to start.

    Plans that a test makes itself suit few rows, too: Spark's own settings make 200 tasks of each shuffle.
    """
    from analysis.spark.session import plans_for

    with _session() as spark, plans_for(spark, 0):
        yield spark


@pytest.fixture(scope="session")
def spark_if_needed() -> Iterator[Callable[[], SparkSession]]:
    """The session of a worker, for the few records of live tests: it starts once something can be wrong in one."""
    with contextlib.ExitStack() as at_end:
        yield functools.cache(lambda: at_end.enter_context(_session()))


def _set_priority(priority: int) -> None:
    """Set how this process, and what it starts from now on, shares the cores: only root can take back a lower one.

    Linux keeps a nice value for each thread, and some processes are started by a thread of their own.
    """
    if os.geteuid() == 0:
        for thread in os.listdir("/proc/self/task"):
            # A thread may have ended, and root of a container may have no such right.
            with contextlib.suppress(PermissionError, ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, int(thread), min(priority, 19))


def _leave_cores_to_other_sessions() -> None:
    """Let the child processes with a session of their own be as nice as tests that do not have the host.

    Linux shares the cores among sessions first: within a session alone a nice value counts.
    """
    children: list[str] = []
    for thread in Path("/proc/self/task").glob("*/children"):
        # A thread or a child may have ended, and a kernel may share the cores otherwise.
        with contextlib.suppress(OSError):
            children += thread.read_text().split()
    for child in children:
        with contextlib.suppress(OSError):
            if os.getsid(int(child)) == int(child):
                Path(f"/proc/{child}/autogroup").write_text(str(LATER))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Whatever starts clusters, or changes or compares the state of this host, has the host to itself.

    It is also first to get a core: such tests wait for each other, and clusters have deadlines.
    """
    if not _has_any(item, TAKE_THE_HOST) or _has_any(item, ("beside",)):
        _set_priority(PRIORITY + LATER)
        return (yield)
    with HOST.held():
        _set_priority(PRIORITY)
        return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a free worker the next file.

    The first worker begins with files that need Spark, and first with those of them that take the host. The last one
    begins with those that leave the host alone. Any other has files that take the host. Only the first has files that
    need Spark while there are others: a session takes a minute of CPU time until it is as fast as an older one.
    """
    from xdist.scheduler import LoadScopeScheduling
    from xdist.workermanage import WorkerController

    class ClusterScheduling(LoadScopeScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            if _has_lone_tests(config.rootpath / file):
                return nodeid
            folder = Path(file).parent
            return str(folder) if _shares(config.rootpath / folder) else file

        def _assign_work_unit(self, node: WorkerController) -> None:
            first, beside = node is self.nodes[0], len(self.nodes) > 1 and node is self.nodes[-1]

            def dislikes(scope: str) -> tuple[bool, bool]:
                file = config.rootpath / scope.partition("::")[0]
                leaves_host, has_spark = not _takes_host(file), "mark.spark" in _text(file)
                if first:
                    return not has_spark, leaves_host
                return (not leaves_host, has_spark) if beside else (has_spark, leaves_host)

            self.workqueue.move_to_end(min(self.workqueue, key=dislikes), last=False)
            super()._assign_work_unit(node)

        def _reschedule(self, node: WorkerController) -> None:
            # A worker begins a test once it knows the next one. To have more ahead would keep them from the others.
            if not self.workqueue or self._pending_of(self.assigned_work[node]) <= 1:
                super()._reschedule(node)

    return ClusterScheduling(config, log)


@functools.cache
def _shares(folder: Path) -> bool:
    """Whether the records of all files in a folder are reconciled together, so that one worker runs all of them."""
    shared = folder / "conftest.py"
    return shared.is_file() and "import Together" in _text(shared)


@functools.cache
def _text(file: Path) -> str:
    """The text of a file, or of all tests of a folder."""
    return "".join(map(_text, sorted(file.glob("test_*.py")))) if file.is_dir() else file.read_text("utf-8")


@functools.cache
def _takes_host(file: Path) -> bool:
    """Whether tests of the file take the host."""
    text = _text(file)
    beside = re.search(r"^[^@\n]*mark\.beside", text, re.MULTILINE) is not None
    return not beside and (file.parent.name in ("live", "root") or "mark.root" in text)


@functools.cache
def _has_lone_tests(file: Path) -> bool:
    """Whether the tests of a file share nothing, and take long enough to be given out one by one."""
    return file.parent.name == "live" and _takes_host(file) and 'scope="module"' not in _text(file)


@functools.cache
def _turn(file: Path) -> int:
    """The long files come first, so that the workers end together.

    The very first need other Spark sessions than the one that a worker keeps.
    """
    text = _text(file)
    marks = ("mark.beside", "mark.slow", "mark.spark")
    return next((n for n, mark in enumerate(marks) if mark in text), len(marks))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip as root would be a pass that proved nothing: it fails."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and os.geteuid() == 0
        and _has_any(item, NEVER_SKIPPED_AS_ROOT)
        and not (item.get_closest_marker("docker") is not None and _lacks_docker() is not None)
        and NO_USER_NAMESPACES not in str(report.longrepr)
    ):
        report.outcome = "failed"
        report.longrepr = f"skipped as root, where it must run: {report.longrepr}"
    return report
