"""Ports on the host's loopback that lead to the brokers of a cluster.

The nodes live in network namespaces, which the host cannot reach. A relay (`cluster.relay.program`) takes connections
on the host's loopback, and passes their bytes on from the clients' namespace. So a program on the host is a client like
any other: what cuts the clients off cuts it off too. The ports end with the harness, in whatever way it ends.
"""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path

from cluster.host.children import Child, start_child
from cluster.host.ledger import Ledger
from ebbtide import run_clock
from ebbtide.command import module_command
from ebbtide.errors import HarnessError, UsageError
from ebbtide.memory import how_ended
from ebbtide.record.files import log_command

LOOPBACK = "127.0.0.1"
RELAY = ("env", "GLIBC_TUNABLES=glibc.cpu.x86_non_temporal_threshold=32768", *module_command("cluster.relay.program"))
"""The relay's command line without its arguments. Its long copies bypass the caches: the spool would fill them."""

_START_TIMEOUT_S = 30.0
_END_TIMEOUT_S = 60.0


class HostPorts:
    """A port for each broker, from `first` on; the ports are taken when this is made.

    `first` 0 takes any free ports. `records`: the relay records what passes, for a run that is judged. `tls`: clients
    connect with TLS. Raises `UsageError` if a port is taken already, or needs privileges that are missing.
    """

    def __init__(self, first: int, brokers: Sequence[int], *, records: bool = False, tls: bool = False) -> None:
        self.records, self.tls = records, tls
        self._listening: dict[int, socket.socket] = {}
        self._relay: Child | None = None
        self._output = Path()
        try:
            for at, broker in enumerate(brokers):
                self._listening[broker] = _listen(first + at if first else 0)
        except BaseException:
            self.close()
            raise
        self.by_broker: Mapping[int, int] = {id: each.getsockname()[1] for id, each in self._listening.items()}

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that a client on the host can bootstrap from."""
        return tuple(f"{LOOPBACK}:{port}" for port in self.by_broker.values())

    def serve(
        self,
        ledger: Ledger,
        namespace: Path,
        targets: Mapping[int, tuple[str, int]],
        output: Path,
        spool: tuple[int, int] | None = None,
        tls: Path | None = None,
    ) -> None:
        """Start the relay, which passes connections on to `targets`, by broker, from the namespace at `namespace`.

        It records in the spool with these file descriptors, and shows clients the certificate in the folder `tls`. The
        file `output` says why it failed. Raises `HarnessError` if it does not begin in time.
        """
        self._output = output
        handles = {broker: each.fileno() for broker, each in self._listening.items()}
        argv = [*RELAY, "--clock-base", str(run_clock.base_ns())]
        for broker, handle in handles.items():
            host, port = targets[broker]
            argv += ["--listen", f"{handle}={host}:{port}"]
        argv += [] if spool is None else ["--spool", *map(str, spool)]
        argv += [] if tls is None else ["--tls", str(tls)]
        ready, answers = os.pipe()
        try:
            argv += ["--ready", str(answers)]
            inherited = [*handles.values(), answers, *(spool or ())]
            name = "the relay of published ports"
            self._relay = start_child(ledger, argv, name=name, output=output, namespace=namespace, inherited=inherited)
            os.close(answers)
            is_heard = bool(select.select([ready], [], [], _START_TIMEOUT_S)[0])
            has_begun = is_heard and os.read(ready, 1) == b"1"
        finally:
            os.close(ready)
        if not has_begun:
            raise HarnessError(
                "the published ports do not lead to the brokers",
                where=", ".join(self.addresses),
                got=f"the relay ended: {how_ended(self._relay.wait(_END_TIMEOUT_S))}"
                if is_heard
                else f"the ports did not open within {_START_TIMEOUT_S:.0f} s",
                next=f"{log_command(output)}; then the same command again",
            )

    def check(self) -> None:
        """Raise `HarnessError` if the relay ended by itself."""
        if self._relay is not None:
            self._relay.check(", ".join(self.addresses), self._output)

    def end(self) -> None:
        """End the relay, so that what it recorded is complete; `serve` may start another. Raises `HarnessError`."""
        self.check()
        if self._relay is not None:
            self._relay.send(signal.SIGTERM)
            self._relay.wait(_END_TIMEOUT_S)
            self._relay = None

    def close(self) -> None:
        """Free the ports, and end their connections; a second call does nothing."""
        relay, self._relay = self._relay, None
        if relay is not None:
            relay.kill()
        for each in self._listening.values():
            each.close()
        self._listening.clear()


def _listen(port: int) -> socket.socket:
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((LOOPBACK, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise UsageError(
            "the port cannot be used",
            where="--publish",
            got=f"{LOOPBACK}:{port}: {error.strerror}",
            allowed="a free port, and as many free ports after it as there are further brokers",
        ) from None
    return listening
