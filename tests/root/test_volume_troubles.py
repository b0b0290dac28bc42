"""A volume that is full, read-only, dead or replaced, on a real file system."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.host.volumes import Volume

pytestmark = pytest.mark.root

SIZE_BYTES = 64 << 20


@pytest.fixture
def volume(tmp_path: Path) -> Iterator[Volume]:
    made = Volume(image=str(tmp_path / "node.img"), folder=str(tmp_path / "node"))
    made.create(SIZE_BYTES)
    made.mount()
    try:
        yield made
    finally:
        made.undo()


def write_file(volume: Volume, content: bytes = b"log") -> Path:
    file = Path(volume.folder) / "file"
    file.write_bytes(content)
    return file


def test_a_sound_volume_takes_writes_and_keeps_no_trace_of_the_probe(volume: Volume) -> None:
    before = sorted(os.listdir(volume.folder))
    assert volume.write_error() is None
    assert sorted(os.listdir(volume.folder)) == before


def test_a_full_volume_has_no_byte_left_and_costs_the_host_none(volume: Volume) -> None:
    held_before = os.stat(volume.image).st_blocks
    assert volume.fill() > SIZE_BYTES // 2
    assert volume.write_error() == errno.ENOSPC
    volume.sync()
    grown_bytes = (os.stat(volume.image).st_blocks - held_before) * 512
    assert grown_bytes < SIZE_BYTES // 8
    volume.free()
    assert volume.write_error() is None


def test_a_read_only_volume_refuses_open_files_too_and_is_read_on(volume: Volume) -> None:
    file = write_file(volume)
    with file.open("r+b", buffering=0) as open_before:
        volume.set_read_only()
        with pytest.raises(OSError, match="Read-only file system") as refused:
            open_before.write(b"more")
    assert refused.value.errno == errno.EROFS
    assert volume.write_error() == errno.EROFS
    assert file.read_bytes() == b"log"
    volume.unmount()
    volume.mount()
    assert volume.write_error() is None


def test_a_volume_that_died_refuses_writes_until_it_is_mounted_anew(volume: Volume) -> None:
    volume.shut_down()
    assert volume.write_error() in (errno.EIO, errno.ESHUTDOWN)
    volume.unmount()
    volume.mount()
    assert volume.write_error() is None


def test_a_replaced_volume_is_empty_and_as_large(volume: Volume) -> None:
    write_file(volume, os.urandom(1 << 20))
    volume.sync()
    volume.replace()
    assert os.listdir(volume.folder) == ["lost+found"]
    assert os.stat(volume.image).st_size == SIZE_BYTES
    assert volume.write_error() is None
