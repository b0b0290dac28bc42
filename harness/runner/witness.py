"""Reads the final log a second time with Spark's Kafka connector.

`ebbtide run --witness spark` asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from analysis.witness.table import PROBLEM, WitnessConfig
from ebbtide.command import module_command
from ebbtide.memory import how_ended
from ebbtide.record.files import LOGS_DIR, WITNESS_DIR, write_atomically
from ebbtide.waiting import WaitExpired, wait_until
from harness.runner.session import Session

WITNESS_TIMEOUT_S = 180.0


def with_witness(jars: Sequence[Path]) -> Callable[[Session], None]:
    """Return `Session.carry_out` followed by the witness.

    If the witness fails, the record says why.
    """

    def drive(session: Session) -> None:
        session.carry_out()
        with session.time_phase("witness"):
            problem = _read_final_log(session, jars)
        if problem is not None:
            write_atomically(session.record / WITNESS_DIR / PROBLEM, problem.encode())

    return drive


def _read_final_log(session: Session, jars: Sequence[Path]) -> str | None:
    """Read the final log into the record; returns the reason if that was not possible."""
    if not session.end.final.offsets:
        return f"there was no final read to compare with: {session.end.why_no_final_read}"
    config = session.record / ".witness.json"
    output = session.record / LOGS_DIR / "client-witness.log"
    into = session.record / WITNESS_DIR
    config.write_bytes(
        msgspec.json.encode(
            WitnessConfig(
                bootstrap=tuple(session.runtime.bootstrap_servers()),
                run_id=session.run_id,
                final_offsets=session.end.final.offsets,
                jars=tuple(map(str, jars)),
                into=str(into),
            )
        )
    )
    argv = [*module_command("analysis.witness.reading"), str(config)]
    process = session.runtime.start_client(argv, name="witness", output=output)

    def has_ended() -> bool:
        session.watch()
        return process.exit_status() is not None

    try:
        wait_until(has_ended, awaited="Spark's reading of the final log", timeout_s=WITNESS_TIMEOUT_S)
    except WaitExpired as error:
        return str(error)
    finally:
        config.unlink()
        if process.exit_status() is None:
            process.kill()
    if process.exit_status() != 0:
        said = output.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
        return f"Spark's reading ended ({how_ended(process.exit_status())}): {said[0]}"
    return None
