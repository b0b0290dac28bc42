"""`ebbtide runs pack RUN OUT.tgz`: packs a run record, so that it can travel."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from ebbtide.errors import ExitCode, UsageError
from harness.cli import completing, options
from harness.cli.archives import BOUNDS
from harness.cli.command import Args, Command
from harness.cli.output import print_json


class PackOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An archive that was written, and read again."""

    archive: str
    records: int
    files: int
    bytes: int


def command() -> Command:
    """Declare the verb's arguments."""
    command = Command(
        "Pack a run record, or a folder of records, into a .tgz, read it again, and compare each file. The same files "
        "give the same bytes. `analyze`, `explain`, `replay`, `shrink` and `nightly site` take the archive in place of "
        "the folder, and `runs --runs` that of a folder of records.",
        epilog="example: ebbtide runs pack runs/RUN run.tgz",
    )
    command.argument(
        "record",
        metavar="RUN",
        type=Path,
        completes=completing.complete_record,
        help="a run record, or a folder of records",
    )
    command.argument("archive", metavar="OUT.tgz", type=Path, help="the archive, a new file")
    options.add_json_option(command)
    return command


def run(args: Args) -> ExitCode:
    """Write the archive, and print what is in it. Raises `UsageError`."""
    from ebbtide.record.files import RecordFolder, check_ended
    from ebbtide.record.manifest import is_record, read_manifest, records_of
    from ebbtide.shown_text import plural
    from ebbtide.untrusted.archives import pack

    folder = args.record.resolve() if args.record.is_dir() else args.record
    records = [folder] if is_record(folder) else records_of(folder) or records_of(folder / "runs")
    if not records:
        read_manifest(RecordFolder(args.record))  # raises for what is no record
    for record in records:
        check_ended(RecordFolder(record))
    next_ = f"ebbtide runs pack {shlex.quote(str(args.record))} run.tgz"
    if not args.archive.name.endswith((".tgz", ".tar.gz")):
        raise UsageError(
            "not the name of an archive", where="OUT.tgz", got=str(args.archive), allowed="NAME.tgz", next=next_
        )
    if args.archive.resolve().is_relative_to(folder):
        raise UsageError("the archive would be in the record", where="OUT.tgz", got=str(args.archive), next=next_)
    files = pack(folder, args.archive, BOUNDS)
    size = args.archive.stat().st_size
    if args.json:
        print_json(PackOutput(archive=str(args.archive), records=len(records), files=files, bytes=size))
    else:
        print(f"{args.archive}: {plural(len(records), 'run')}, {plural(files, 'file')}, {size:,} bytes; read again")
    return ExitCode.AS_PREDICTED
