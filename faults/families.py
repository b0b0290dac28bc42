"""Every family of faults, for the cluster of one run."""

from __future__ import annotations

from collections.abc import Callable

from cluster.runtime.base import Runtime
from ebbtide.record.folder import RecordFolder
from faults.admin import AdminFaults, Administer
from faults.clock import ClockFaults
from faults.disk import DiskFaults
from faults.injector import Injector, View
from faults.network import NetworkFaults
from faults.process import ProcessFaults
from faults.recovery import RecoveryFaults
from faults.replica_replies import AskReplicas, Choose
from faults.waiting import WAITING
from faults.wire import WireFaults


class Faults(Injector):
    """The injector with all families; each family keeps its own state."""

    def __init__(
        self,
        runtime: Runtime,
        view: View,
        administer: Administer,
        ask_replicas: AskReplicas,
        choose: Choose,
        poll: Callable[[], None],
        record: RecordFolder,
    ) -> None:
        """`record`: the folder for the wire proxies' journal. `poll`: see `Injector`.

        `choose`: the rule of an unclean recovery.
        """
        super().__init__(runtime, view, poll)
        self.network = NetworkFaults(self)
        self.disk = DiskFaults(self)
        self.clock = ClockFaults(self)
        self.admin = AdminFaults(self, administer)
        self.wire = WireFaults(runtime, record)
        recovery = RecoveryFaults(self, ask_replicas, choose)
        for family in (
            ProcessFaults(self).family,
            self.disk.family,
            self.clock.family,
            self.network.family,
            self.admin.family,
            recovery.family,
            self.wire.family(self),
            WAITING,
        ):
            self.add(family)
