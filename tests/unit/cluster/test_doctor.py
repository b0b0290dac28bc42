"""What the host can do: how findings become checks, refusals and exit codes; and the real checks, as root."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import psutil
import pytest
from host_state import HostState

from cluster import doctor
from cluster.doctor import EVERY_RUN, QUESTIONS, Check, check_host, require_host
from ebbtide import librdkafka, memory
from ebbtide.errors import ExitCode, HarnessError
from harness.cli.main import main


def _fine() -> str:
    return "fine"


def _lacking_check() -> str:
    raise HarnessError("the thing is missing", got="nothing", next="apt-get install thing")


def _broken_check() -> str:
    raise ZeroDivisionError("division by zero")


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Replaces the questions by one of each kind given: (look, disables, needed)."""

    def install(*looks: tuple[Callable[[], str], tuple[str, ...], bool]) -> None:
        questions = tuple(
            doctor._Question(name=look.__name__, look=look, disables=disables, needed=needed)
            for look, disables, needed in looks
        )
        monkeypatch.setattr(doctor, "QUESTIONS", questions)

    return install


def test_a_check_that_throws_is_unknown_never_ok(ask: Callable[..., None]) -> None:
    ask((_fine, (), True), (_lacking_check, (), True), (_broken_check, (), True))
    assert [check.status for check in check_host()] == ["ok", "missing", "unknown"]


def test_a_missing_thing_says_what_was_seen_and_what_to_type(ask: Callable[..., None]) -> None:
    ask((_lacking_check, ("power-loss",), True))
    (check,) = check_host()
    assert (check.detail, check.remedy) == ("the thing is missing (nothing)", "apt-get install thing")


@pytest.mark.parametrize(
    ("looks", "code"),
    [
        ([(_fine, (), True)], ExitCode.AS_PREDICTED),
        ([(_fine, (), True), (_lacking_check, (), False)], ExitCode.AS_PREDICTED),
        ([(_fine, (), True), (_lacking_check, (), True)], ExitCode.INCONCLUSIVE),
        ([(_broken_check, (), True)], ExitCode.INCONCLUSIVE),
    ],
)
def test_the_exit_code_is_0_only_when_the_local_runtime_lacks_nothing(
    ask: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
    looks: list[tuple[Callable[[], str], tuple[str, ...], bool]],
    code: ExitCode,
) -> None:
    ask(*looks)
    assert main(["doctor"]) == code
    assert main(["doctor", "--json"]) == code
    printed = capsys.readouterr().out
    assert len(msgspec.json.decode(printed[printed.index("\n[") :], type=list[Check])) == len(looks)


def test_a_run_is_refused_once_with_everything_that_its_steps_lack(ask: Callable[..., None]) -> None:
    ask((_lacking_check, (EVERY_RUN,), True), (_broken_check, ("power-loss",), True))
    with pytest.raises(HarnessError, match="_lacking_check, _broken_check") as refused:
        require_host(["kill", "power-loss"])
    assert refused.value.next == "apt-get install thing"


def test_a_run_is_not_refused_for_what_its_steps_do_not_need(ask: Callable[..., None]) -> None:
    ask(
        (_fine, (EVERY_RUN,), True),
        (_lacking_check, ("power-loss",), True),
        (_broken_check, ("docker runtime",), False),
    )
    require_host(["kill", "partition"])


def test_a_trial_that_passed_is_not_made_before_every_run_and_one_that_failed_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[str] = []

    def look(name: str, *, fails: bool = False) -> str:
        made.append(name)
        if fails and made.count(name) == 1:
            raise HarnessError("not yet")
        return "fine"

    monkeypatch.setattr(
        doctor,
        "QUESTIONS",
        (
            doctor._Question(name="a", look=partial(look, "a"), disables=(EVERY_RUN,), trial=True),
            doctor._Question(name="b", look=partial(look, "b", fails=True), disables=(EVERY_RUN,), trial=True),
            doctor._Question(name="memory", look=partial(look, "memory"), disables=(EVERY_RUN,)),
        ),
    )
    monkeypatch.setattr(doctor, "_passed", set())
    with pytest.raises(HarnessError, match="this host cannot run this: b"):
        require_host(["kill"])
    require_host(["kill"])
    require_host(["kill"])
    assert made == ["a", "b", "memory", "b", "memory", "memory"]
    assert len(check_host()) == 3
    assert made[6:] == ["a", "b", "memory"]


def test_every_needed_question_says_what_its_absence_disables_and_what_to_do() -> None:
    assert [question.name for question in QUESTIONS if question.needed and not question.disables] == []
    assert [question.name for question in QUESTIONS if question.needed and not question.remedy] == []
    assert len({question.name for question in QUESTIONS}) == len(QUESTIONS)


def checks_of(*names: str) -> list[Check]:
    """Look at these things only: the trials of the others take seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(doctor, "QUESTIONS", tuple(one for one in QUESTIONS if one.name in names))
        return list(check_host())


def test_a_full_disk_and_a_small_memory_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "FREE_DISK_BYTES", 1 << 60)
    monkeypatch.setattr(doctor, "FREE_MEMORY_BYTES", 1 << 60)
    assert [check.status for check in checks_of("disk space", "memory")] == ["missing"] * 2


def test_a_cache_folder_that_nobody_can_write_in_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", "/proc/ebbtide")
    (check,) = checks_of("cache folder")
    assert (check.status, check.disables) == ("missing", ("kafka fetch",))
    assert "cannot write in /proc" in check.detail


def test_a_cache_folder_that_is_not_there_yet_is_not_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EBBTIDE_CACHE", str(tmp_path / "home" / "cache"))
    (check,) = checks_of("cache folder")
    assert check.status == "ok"
    assert list(tmp_path.iterdir()) == []


def _librdkafka_check() -> Check:
    (check,) = checks_of("librdkafka")
    return check


def test_librdkafka_has_its_version_or_what_to_install_and_no_run_needs_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = _librdkafka_check()
    assert (found.status, found.needed) == ("ok", False)
    assert re.fullmatch(r"\d+\.\d+\.\d+ \(confluent-kafka \d+\.\d+\.\d+\)", found.detail)
    monkeypatch.setattr(librdkafka, "find_spec", lambda name: None)
    monkeypatch.setattr(doctor, "QUESTIONS", tuple(one for one in QUESTIONS if one.name == "librdkafka"))
    missing = _librdkafka_check()
    assert (missing.status, missing.detail) == ("missing", "confluent-kafka is not installed")
    assert main(["doctor"]) == ExitCode.AS_PREDICTED
    said = capsys.readouterr().out
    assert "librdkafka: missing (runs work without it)\n  disables: clients with librdkafka\n" in said
    assert "  next:     pip install 'ebbtide[librdkafka]'" in said


def test_a_confluent_kafka_that_is_too_old_is_missing_and_pyproject_asks_for_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(librdkafka, "version", lambda name: "2.3.0")
    old = _librdkafka_check()
    assert (old.status, old.detail) == ("missing", "confluent-kafka is too old (2.3.0)")
    pyproject = (Path(__file__).parents[3] / "pyproject.toml").read_text()
    assert f'"confluent-kafka>={librdkafka.OLDEST},<' in pyproject


@pytest.mark.parametrize(
    ("names", "limit", "free"),
    [
        (("memory.max", "memory.current", "inactive_file"), "3000", 2300),
        (("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"), "3000", 2300),
        (("memory.max", "memory.current", "inactive_file"), "max", 5000),
    ],
)
def test_the_memory_limit_of_a_container_counts_and_its_cached_files_are_free(
    names: tuple[str, str, str], limit: str, free: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / names[0]).parent.mkdir(exist_ok=True)
    for name, text in zip(names, (limit, "1000"), strict=False):
        (tmp_path / name).write_text(text + "\n")
    (tmp_path / names[0]).with_name("memory.stat").write_text(f"anon 700\n{names[2]} 300\n")
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=5000))
    assert memory.free_memory() == free


def test_more_clusters_at_once_than_the_memory_takes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "free_memory", lambda: 5 * doctor.FREE_MEMORY_BYTES // 2)
    doctor.require_memory(2)
    with pytest.raises(HarnessError) as refused:
        doctor.require_memory(3)
    assert refused.value.next == "--jobs 2"


def test_without_root_nothing_is_tried_that_needs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    statuses = {check.name: check.status for check in check_host()}
    assert statuses["privileges"] == statuses["bridge and nft"] == statuses["ext4 shutdown"] == "missing"
    assert "unknown" not in statuses.values()


def left_since(before: HostState) -> list[str]:
    """Another harness on this host may begin or end its hold of the kernel's write-back meanwhile."""
    left = HostState.now().left_since(before, f"doctor-{os.getpid()}")
    return [one for one in left if not one.startswith("sysctl ")]


@pytest.mark.root
def test_the_real_checks_leave_nothing_behind_and_none_of_them_breaks() -> None:
    before = HostState.now()
    checks = check_host()
    assert left_since(before) == []
    assert [check for check in checks if check.status == "unknown"] == []


@pytest.mark.root
def test_a_file_system_that_keeps_what_was_not_fsynced_fails_the_power_loss_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from cluster.host.volumes import Volume

    before = HostState.now()
    monkeypatch.setattr(Volume, "shut_down", lambda volume: True)
    (check,) = checks_of("ext4 shutdown")
    assert check.status == "missing"
    assert "kept a file that was not fsynced" in check.detail
    assert left_since(before) == []


@pytest.mark.root
def test_a_packet_filter_that_does_not_drop_fails_the_cut_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    from cluster.host.bridge import BridgeNetwork

    before = HostState.now()
    monkeypatch.setattr(BridgeNetwork, "cut", lambda network, cuts: None)
    (check,) = checks_of("bridge and nft")
    assert check.status == "missing"
    assert left_since(before) == []


def test_the_checks_that_every_run_needs_say_so_and_no_others() -> None:
    """An ordinary user in a user namespace has no volumes, and runs work: power is lost by truncate."""
    needed = {question.name for question in QUESTIONS if question.needed}
    assert {question.name for question in QUESTIONS if EVERY_RUN in question.disables} <= needed
    assert needed.isdisjoint({"loop mounts", "ext4 shutdown", "slow volumes", "xfs shutdown", "write-back hold"})


def test_missing_things_that_one_command_puts_right_are_named_together(
    ask: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    def second_check() -> str:
        raise HarnessError("also missing", next="apt-get install thing")

    ask((_lacking_check, ("power-loss",), True), (_broken_check, (), False), (second_check, ("slow-disk",), False))
    assert main(["doctor"]) == ExitCode.INCONCLUSIVE
    out = capsys.readouterr().out
    assert "_lacking_check, second_check: missing\n  disables: power-loss, slow-disk\n" in out
    assert out.count("next:     apt-get install thing") == 1
    assert "_broken_check: unknown (runs work without it)" in out
