"""The harness's side of published ports: the relay, and beside it the decoder of what the relay records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from cluster.host.children import Child, start_child
from cluster.host.host_ports import HostPorts
from cluster.host.ledger import Ledger
from cluster.relay.spool import Handles, new_spool
from cluster.relay.tls import CA_FILE, make_certificate
from ebbtide import run_clock
from ebbtide.command import module_command
from ebbtide.errors import HarnessError
from ebbtide.record.files import LOGS_DIR, log_command
from ebbtide.record.wire_facts import WireFacts

FINISH_TIMEOUT_S = 300.0
_TABLE = "wire/relay.parquet"


class Publication:
    """Leads `ports` to `targets`, by broker.

    If they record, what passes becomes the table `wire` of the record `folder`. The folder `scratch` is not kept. With
    TLS, it has the certificate that clients trust, `ca`.
    """

    def __init__(
        self,
        ledger: Ledger,
        ports: HostPorts,
        namespace: Path,
        targets: Mapping[int, tuple[str, int]],
        bootstrap: Sequence[str],
        folder: Path,
        scratch: Path,
    ) -> None:
        """Start the processes; the decoder reads from the brokers at `bootstrap`. Raises `HarnessError`."""
        self._bootstrap = bootstrap
        self._ledger, self._ports, self._namespace, self._targets = ledger, ports, namespace, targets
        self._logs = folder / LOGS_DIR
        self._recorded: WireFacts | None = None
        self._facts = scratch / "wire.json"
        self._tls = scratch if ports.tls else None
        self.ca = scratch / CA_FILE if ports.tls else None
        if ports.tls:
            scratch.mkdir(parents=True, exist_ok=True)
            make_certificate(scratch)
        self._decoder: Child | None = None
        if not ports.records:
            self._serve(None)
            return
        with new_spool() as (writer, reader):
            self._decoder = self._start_decoder(folder / _TABLE, reader)
            self._serve(writer)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses on the host."""
        return self._ports.addresses

    @property
    def is_recording(self) -> bool:
        """Whether what passes is recorded."""
        return self._decoder is not None

    def check(self) -> None:
        """Raise `HarnessError` if the relay ended by itself, or the decoder failed."""
        self._ports.check()
        status = None if self._decoder is None else self._decoder.exit_status()
        if status:
            raise HarnessError(
                "the traffic of published ports could not be decoded",
                where=", ".join(self._ports.addresses),
                got=f"exit status {status}",
                next=log_command(self._decoder_log),
            )

    def end_recording(self) -> WireFacts | None:
        """Make the table `wire`, and return what the table rests on; None if nothing was recorded.

        It ends the connections through the ports. What passes after that is not recorded. A second call only returns
        the same. Raises `HarnessError`.
        """
        if self._decoder is None:
            return self._recorded
        self._ports.end()
        self._decoder.wait(FINISH_TIMEOUT_S)
        self.check()
        self._decoder = None
        self._recorded = msgspec.json.decode(self._facts.read_bytes(), type=WireFacts)
        self._serve(None)
        return self._recorded

    @property
    def _decoder_log(self) -> Path:
        return self._logs / "decoder.log"

    def _serve(self, spool: Handles | None) -> None:
        self._ports.serve(self._ledger, self._namespace, self._targets, self._logs / "relay.log", spool, self._tls)

    def _start_decoder(self, table: Path, spool: Handles) -> Child:
        argv = [*module_command("cluster.relay.decode"), "--clock-base", str(run_clock.base_ns())]
        argv += ["--spool", *map(str, spool), "--table", str(table), "--facts", str(self._facts)]
        argv += ["--bootstrap", ",".join(self._bootstrap)]
        name, output = "the decoder of published ports", self._decoder_log
        namespace = self._namespace
        return start_child(self._ledger, argv, name=name, output=output, namespace=namespace, inherited=spool)
