"""Numbers without end, texts that are not UTF-8, holes and odd files of the kernel: each is one clear error."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cluster.snapshot.security import _path
from ebbtide.errors import ExitCode, UsageError
from ebbtide.releases.known_releases import parse_version
from ebbtide.untrusted import files
from ebbtide.untrusted.files import UnreadableFile, read_file
from ebbtide.untrusted.parquet import read_batches, read_rows
from ebbtide.untrusted.values import DIGITS_MAX, decode_json, decode_toml, has_endless_number
from harness.cli import main as command

DIGITS = "9" * 5_000


@pytest.mark.parametrize(
    "text",
    [DIGITS, f'"{DIGITS}"', f'"3.9.{DIGITS}"', f'{{"{DIGITS}": 1}}', f"[[{DIGITS}]]", f'{{"a": "{"٣" * 5_000}"}}'],
)
def test_a_number_without_end_in_json_is_a_decoding_error(text: str) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_json(text.encode(), object)


@pytest.mark.parametrize("value", [DIGITS, f'"{DIGITS}"', f"0x{'f' * 5_000}", f'[{{a = "x{DIGITS}"}}]'])
def test_a_number_without_end_in_toml_is_a_value_error(value: str) -> None:
    with pytest.raises(ValueError, match="digits"):
        decode_toml(f"x = {value}")


def test_texts_and_numbers_as_long_as_anybody_needs_are_read() -> None:
    assert decode_json(f'"{"x" * 5_000}"'.encode(), str) == "x" * 5_000
    assert decode_toml(f"x = {'9' * DIGITS_MAX}")["x"] > 0
    assert not has_endless_number("9" * DIGITS_MAX + " " + "9" * DIGITS_MAX)


@pytest.mark.parametrize("word", [DIGITS, f"3.9.{DIGITS}", f"t-0:{DIGITS}", f"a={DIGITS}s"])
def test_a_number_without_end_on_the_command_line_is_refused_in_a_few_words(
    word: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ["spec", "rules", word],
        ["run", "healthy", f"--kafka={word}"],
        ["cluster", "fault", "kill", word],
    ):
        assert command.main(arguments) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert said.count("error: a number is too long") == 3
    assert len(said) < 3_000


def test_a_release_of_such_numbers_is_none() -> None:
    with pytest.raises(UsageError, match="not a Kafka release"):
        parse_version(f"3.9.{DIGITS}")


@pytest.mark.parametrize("read", [read_rows, lambda *a, **k: list(read_batches(*a, **k))])
def test_a_text_that_is_not_utf8_is_an_error_of_its_table(tmp_path: Path, read: Any) -> None:
    raw = pa.array([b"t", b"\xff\xfe"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    pq.write_table(pa.table({"topic": texts}), tmp_path / "x.parquet")
    with pytest.raises(UsageError, match="the table sends cannot be read"):
        read([tmp_path / "x.parquet"], "sends")


def test_a_file_that_has_nothing_to_read_yet_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Waits(io.BufferedReader):
        def read(self, size: int | None = -1, /) -> bytes:
            return None  # type: ignore[return-value]  # as a file of the kernel that is not ready

    (tmp_path / "x").touch()
    monkeypatch.setattr(files, "open_file", lambda path, *, what: Waits(io.FileIO(path)))
    with pytest.raises(UnreadableFile, match="cannot read the file") as caught:
        read_file(tmp_path / "x")
    assert caught.value.got == "nothing to read now"


def test_a_hole_is_refused_before_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    os.truncate(tmp_path / "x", 1 << 40)
    with pytest.raises(UnreadableFile, match="the file is too large"):
        read_file(tmp_path / "x")


def test_the_home_of_a_user_that_is_not_there_is_one_clear_error() -> None:
    with pytest.raises(UsageError, match="there is no such user on this host") as caught:
        _path({"ssl.truststore.location": "~nosuchuser/x"}, "ssl.truststore.location")
    assert caught.value.where == "--command-config: ssl.truststore.location"
    assert "nosuchuser" not in caught.value.render()


@pytest.mark.parametrize(
    ("number", "code"),
    [
        *((number, ExitCode.USAGE) for number in (errno.EACCES, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)),
        # A run's own fault may have made a volume read-only.
        *((number, ExitCode.HARNESS_FAILED) for number in (errno.EPERM, errno.EROFS)),
    ],
)
def test_a_file_that_the_host_refuses_is_one_clear_error(
    number: int, code: ExitCode, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_: object) -> int:
        raise OSError(number, os.strerror(number), "/some/folder")

    monkeypatch.setattr(command, "_run", refuse)
    assert command.main(["runs"]) == code
    said = capsys.readouterr().err
    assert "error: the host does not let this user use a file or a folder\n  where:   /some/folder" in said
    assert os.strerror(number) in said
    assert "internal error" not in said
