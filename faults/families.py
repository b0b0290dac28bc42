"""Every family of faults, for the cluster of one run.

The step that only waits: it is done once its trigger has fired.
"""

from __future__ import annotations

from collections.abc import Callable

from cluster.runtime.cluster import Runtime
from ebbtide.record.files import RecordFolder
from ebbtide.scenario.steps.step import WaitStep
from faults.admin import AdminFaults, Administer
from faults.base import proven_effect
from faults.clients import ClientFaults, Clients
from faults.clock import ClockFaults
from faults.disk import DiskFaults
from faults.injector import Family, Injector, Plan, View
from faults.network import NetworkFaults
from faults.process import ProcessFaults
from faults.recovery import RecoveryFaults
from faults.replica_replies import AskReplicas, Choose
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
        clients: Clients,
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
            ClientFaults(self, clients).family,
            self.disk.family,
            self.clock.family,
            self.network.family,
            self.admin.family,
            recovery.family,
            self.wire.family(self),
            WAITING,
        ):
            self.add(family)


WAITING = Family(plans={WaitStep: lambda _step: Plan(nodes=(), description="", act=proven_effect)})
