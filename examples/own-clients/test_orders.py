"""Does the application keep every order, whatever happens to Kafka?

Each program here has a bug. `ORDERS=fixed pytest` runs the fixed ones, and every test passes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from applications import INVOICER, JAVA_PRODUCER, PYTHON_PRODUCER, SHIPPER, Application

from ebbtide import Chaos, followers, leader

pytestmark = pytest.mark.kafka("4.3.1")


@pytest.mark.chaos(publish=True)
@pytest.mark.parametrize("program", [PYTHON_PRODUCER, JAVA_PRODUCER], ids=["python", "java"])
def test_a_confirmed_order_survives_the_loss_of_its_leader(chaos: Chaos, program: list[str | Path]) -> None:
    chaos.create_topic("orders", min_isr=2)
    with Application(program, chaos.published, "orders") as application:
        application.await_line("confirmed 500")
        chaos.partition([leader("orders-0")], [followers("orders-0"), "controllers"])
        chaos.wait(after="2s")  # acks=1 is confirmed, acks=all waits
        chaos.power_loss(leader("orders-0"))


@pytest.mark.chaos(publish=True)
def test_every_order_is_shipped_though_the_shipper_dies(chaos: Chaos) -> None:
    chaos.create_topic("orders", min_isr=2)
    with Application([*PYTHON_PRODUCER, "--fixed"], chaos.published, "orders") as orders:
        orders.await_line("confirmed 500")
        with Application(SHIPPER, chaos.published, "orders", "--dies-after", "120") as shipper:
            shipper.await_death()
        with Application(SHIPPER, chaos.published, "orders") as shipper:
            shipper.await_line("shipped 200")


@pytest.mark.chaos(publish=True)
def test_every_order_gets_an_invoice_though_transactions_abort(chaos: Chaos) -> None:
    chaos.create_topic("orders", min_isr=2)
    chaos.create_topic("invoices", min_isr=2)
    with Application([*PYTHON_PRODUCER, "--fixed"], chaos.published, "orders") as orders:
        orders.await_line("confirmed 500")
        with Application(INVOICER, chaos.published, "orders", "invoices") as invoicer:
            invoicer.await_line("invoices 400")
