"""Ledgers that are damaged, or that another user planted: nothing of theirs is undone, and all others are."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from cluster.clean import clean, describe_leftovers
from cluster.host.containers import Container
from cluster.host.ledger import DamagedLedger, Entry, EntryMade, LedgerOpened, read_ledger
from cluster.host.namespaces import Namespace
from cluster.host.processes import OwnedProcess, ProcessId, identify, mark_of
from cluster.host.slow_volume import Slowness
from cluster.host.volumes import Volume
from cluster.host.writeback import WriteBackHold
from ebbtide.errors import HarnessError
from ebbtide.ownership import Untrusted

DEAD = ProcessId(pid=1 << 22, start_ticks=0, boot_id="none")


@pytest.fixture
def ledgers(tmp_path: Path) -> Path:
    folder = tmp_path / "ledger"
    folder.mkdir(0o700)
    return folder


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the run `good`."""
    with subprocess.Popen(["sleep", "300"], env={**os.environ, **mark_of("good")}) as process:
        yield process
        process.kill()


@pytest.fixture
def foreign() -> Iterator[subprocess.Popen[bytes]]:
    """A process that no run started."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def write_ledger(folder: Path, run_id: str, *entries: Entry, owner: ProcessId = DEAD) -> Path:
    """The ledger of a run that is dead unless `owner` lives."""
    lines: list[LedgerOpened | EntryMade] = [LedgerOpened(run_id=run_id, owner=owner, folder="/tmp")]
    lines += [EntryMade(number=number, entry=entry) for number, entry in enumerate(entries)]
    path = folder / f"{run_id}.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    path.chmod(0o600)
    return path


@pytest.mark.parametrize(
    "content",
    [
        b"not json\n",
        b"\xff\xfe\n",
        b'{"line":"opened","run_id":"bad","owner":{"pid":1,"start_ticks":0,"boot_id":"\xff"},"folder":"/"}\n',
        b"[" * 100_000 + b"\n",
        b"",
    ],
    ids=["no JSON", "a broken byte", "a broken byte in a string", "too deep", "empty"],
)
def test_a_damaged_ledger_is_set_aside_and_named_and_all_others_are_undone(
    ledgers: Path, sleeper: subprocess.Popen[bytes], content: bytes
) -> None:
    (ledgers / "bad.jsonl").write_bytes(content)
    (ledgers / "bad.jsonl").chmod(0o600)
    write_ledger(ledgers, "good", OwnedProcess(name="node", process=identify(sleeper.pid), run_id="good"))
    bad, good = clean(ledgers)
    assert good.undone == (f"process {sleeper.pid} (node)",)
    assert str(ledgers / "bad.damaged") in bad.failed[0]
    assert (ledgers / "bad.damaged").read_bytes() == content
    [again] = clean(ledgers)
    assert str(ledgers / "bad.damaged") in again.failed[0]


def test_what_killed_runs_left_is_named_with_the_command_that_undoes_it(
    ledgers: Path, sleeper: subprocess.Popen[bytes]
) -> None:
    assert describe_leftovers(ledgers) == "no killed run left anything"
    write_ledger(ledgers, "live", owner=identify(os.getpid()))
    write_ledger(ledgers, "killed", OwnedProcess(name="node", process=identify(sleeper.pid), run_id="good"))
    (ledgers / "torn.jsonl").write_bytes(b"not json\n")
    (ledgers / "torn.jsonl").chmod(0o600)
    with pytest.raises(HarnessError) as caught:
        describe_leftovers(ledgers)
    assert (caught.value.got, caught.value.next) == ("killed, torn", "ebbtide clean")
    assert sleeper.poll() is None, "nothing is undone"


@pytest.mark.parametrize("set_aside", [False, True])
def test_forget_also_forgets_a_damaged_ledger(ledgers: Path, set_aside: bool) -> None:
    (ledgers / "bad.jsonl").write_bytes(b"not json\n")
    if set_aside:
        clean(ledgers)
    [outcome] = clean(ledgers, forget=True)
    assert outcome.failed
    assert clean(ledgers) == []


def test_a_damaged_ledger_of_a_live_run_is_left_alone(ledgers: Path) -> None:
    path = write_ledger(ledgers, "live", owner=identify(os.getpid()))
    with path.open("ab") as file:
        file.write(b"not json\n")
    [outcome] = clean(ledgers)
    assert outcome.live
    assert path.exists()


@pytest.mark.parametrize("mode", [0o666, 0o602])
def test_a_ledger_that_others_could_have_written_is_not_believed(
    ledgers: Path, sleeper: subprocess.Popen[bytes], mode: int
) -> None:
    write_ledger(ledgers, "good", OwnedProcess(name="node", process=identify(sleeper.pid), run_id="good")).chmod(mode)
    [outcome] = clean(ledgers)
    assert "cannot be believed" in outcome.failed[0]
    assert sleeper.poll() is None


def test_a_folder_of_ledgers_that_others_write_is_not_believed(ledgers: Path, sleeper: subprocess.Popen[bytes]) -> None:
    write_ledger(ledgers, "good", OwnedProcess(name="node", process=identify(sleeper.pid), run_id="good"))
    ledgers.chmod(0o777)
    with pytest.raises(Untrusted, match="another user"):
        clean(ledgers)
    assert sleeper.poll() is None


def test_a_ledger_that_is_a_link_is_not_followed(ledgers: Path, tmp_path: Path) -> None:
    write_ledger(tmp_path, "r")
    (ledgers / "r.jsonl").symlink_to(tmp_path / "r.jsonl")
    with pytest.raises(DamagedLedger, match="cannot be believed"):
        read_ledger(ledgers / "r.jsonl")


def test_a_process_without_the_mark_of_the_run_is_not_killed(ledgers: Path, foreign: subprocess.Popen[bytes]) -> None:
    write_ledger(ledgers, "good", OwnedProcess(name="node", process=identify(foreign.pid), run_id="good"))
    [outcome] = clean(ledgers)
    assert "was not started by its run" in outcome.failed[0]
    assert foreign.poll() is None


@pytest.mark.parametrize("number", [errno.EIO, errno.ENOMEM, errno.EMFILE])
def test_a_ledger_that_the_host_cannot_read_now_stays_and_is_undone_later(
    ledgers: Path, sleeper: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = write_ledger(ledgers, "good", OwnedProcess(name="node", process=identify(sleeper.pid), run_id="good"))

    def refuse(_: Path) -> bytes:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr("cluster.host.ledger.read_private", refuse)
        [outcome] = clean(ledgers)
    assert os.strerror(number) in outcome.failed[0]
    [outcome] = clean(ledgers)
    assert outcome.undone == (f"process {sleeper.pid} (node)",)


PLANTED: list[Entry] = [
    Namespace(name="ebbtide-r-../../precious"),
    Namespace(name="../../precious"),
    Namespace(name="ebbtide-other-1"),
    Volume(image="relative", folder="/x"),
    Volume(image="/x/../y", folder="/x"),
    Slowness(image="/x", folder="../x"),
    WriteBackHold(run_id="other", shared="/x"),
    OwnedProcess(name="n", process=DEAD, run_id="other"),
    OwnedProcess(name="n", process=ProcessId(pid=1, start_ticks=0, boot_id=""), run_id="r"),
    OwnedProcess(name="n", process=ProcessId(pid=-1, start_ticks=0, boot_id=""), run_id="r"),
    Container(docker_host="unix:///x", name="x", run_id="other"),
]


@pytest.mark.parametrize("entry", PLANTED, ids=str)
def test_an_entry_that_the_run_cannot_have_made_is_refused(ledgers: Path, entry: Entry) -> None:
    with pytest.raises(DamagedLedger, match="no run r makes"):
        read_ledger(write_ledger(ledgers, "r", entry))


def test_a_ledger_of_another_name_than_its_run_is_refused(ledgers: Path) -> None:
    write_ledger(ledgers, "r").rename(ledgers / "other.jsonl")
    with pytest.raises(DamagedLedger, match="a first line of run"):
        read_ledger(ledgers / "other.jsonl")


def test_a_namespace_outside_their_folder_is_never_removed(tmp_path: Path) -> None:
    (tmp_path / "precious").touch()
    with pytest.raises(HarnessError, match="not the name"):
        Namespace(name=f"../..{tmp_path}/precious").undo()
    assert (tmp_path / "precious").exists()
