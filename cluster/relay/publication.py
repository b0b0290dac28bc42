"""The harness's side of published ports: the relay, and beside it the decoder of what the relay records."""

from __future__ import annotations

import shutil
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
from ebbtide.memory import how_ended
from ebbtide.record.files import LOGS_DIR
from ebbtide.record.own_producers import WireFacts

FINISH_TIMEOUT_S = 300.0
_TABLE, _DECODER_LOG = "wire/relay.parquet", "decoder.log"


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
        self._logs, self._table = folder / LOGS_DIR, folder / _TABLE
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
            self._decoder = self._start_decoder(reader)
            self._serve(writer)

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses on the host."""
        return self._ports.addresses

    @property
    def is_recording(self) -> bool:
        """Whether what passes is recorded."""
        return self._decoder is not None

    def check(self) -> str | None:
        """Return why no more is recorded, once the decoder has failed. Raises `HarnessError` if the relay ended."""
        self._ports.check()
        status = None if self._decoder is None else self._decoder.exit_status()
        return f"what decodes it ended early: {how_ended(status)} ({LOGS_DIR}/{_DECODER_LOG})" if status else None

    def end_recording(self) -> WireFacts | None:
        """Make the table `wire`, and return what the table rests on; None if nothing was recorded.

        It ends the connections through the ports. What passes after that is not recorded. A second call only returns
        the same. If the decoder failed there is no table, and that is said. Raises `HarnessError`.
        """
        if self._decoder is None:
            return self._recorded
        self._ports.end()
        self._decoder.wait(FINISH_TIMEOUT_S)
        if (why := self.check()) is None:
            self._recorded = msgspec.json.decode(self._facts.read_bytes(), type=WireFacts)
        else:
            self._recorded = WireFacts(why_incomplete=why)
            shutil.rmtree(self._table.parent, ignore_errors=True)
        self._decoder = None
        self._serve(None)
        return self._recorded

    def _serve(self, spool: Handles | None) -> None:
        self._ports.serve(self._ledger, self._namespace, self._targets, self._logs / "relay.log", spool, self._tls)

    def _start_decoder(self, spool: Handles) -> Child:
        argv = [*module_command("cluster.relay.decode"), "--clock-base", str(run_clock.base_ns())]
        argv += ["--spool", *map(str, spool), "--table", str(self._table), "--facts", str(self._facts)]
        argv += ["--bootstrap", ",".join(self._bootstrap)]
        name, output = "the decoder of published ports", self._logs / _DECODER_LOG
        namespace = self._namespace
        return start_child(self._ledger, argv, name=name, output=output, namespace=namespace, inherited=spool)
