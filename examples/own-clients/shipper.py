"""Ships each order that comes, until SIGTERM.

The bug: it commits what it got before it ships. If it dies in between, nobody ships these orders. `--fixed` commits
each order once it is shipped.
"""

from __future__ import annotations

import argparse
import os
import signal
import time

from confluent_kafka import Consumer, Message

from ebbtide.handled import handled

SHIPPING_S = 0.02


def ship(order: Message) -> None:
    """Do the work, and say so to the test: the only line that knows Ebbtide."""
    time.sleep(SHIPPING_S)
    handled(order)


def main() -> None:
    """Ship orders; `--dies-after` is how many it ships before it dies in the middle of one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--dies-after", type=int)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    consumer = Consumer(
        {
            "bootstrap.servers": args.bootstrap,
            "client.id": "shipper",
            "group.id": "shipping",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,  # how long the group waits for a member that died
        }
    )
    consumer.subscribe([args.topic])
    is_ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: is_ending.append(number))
    shipped = 0
    while not is_ending:
        orders = [order for order in consumer.consume(50, timeout=0.5) if order.error() is None]
        if orders and not args.fixed:
            consumer.commit(message=orders[-1], asynchronous=False)
        for order in orders:
            if shipped == args.dies_after:
                os.kill(os.getpid(), signal.SIGKILL)
            ship(order)
            shipped += 1
            if args.fixed:
                consumer.commit(message=order, asynchronous=False)
            if shipped % 50 == 0:
                print(f"shipped {shipped}", flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
