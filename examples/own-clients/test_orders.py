"""Does the application keep every order, whatever happens to Kafka?

Each program here has a bug. `ORDERS=fixed pytest` runs the fixed ones, and every test passes.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from applications import JAVA_PRODUCER, PYTHON_PRODUCER, Application

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
