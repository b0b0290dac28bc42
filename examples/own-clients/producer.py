"""Sends orders to Kafka, one after the other, until SIGTERM.

The bug: acks=1. The leader answers before any follower has the order, so its power loss takes orders that were
confirmed. `--fixed` waits for all replicas in the ISR.
"""

from __future__ import annotations

import argparse
import signal
import time
from types import FrameType

from confluent_kafka import KafkaError, Message, Producer


def main() -> None:
    """Send orders, and say how many were confirmed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("topic")
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    is_ending = False
    confirmed = 0

    def end(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_ending
        is_ending = True

    def note(error: KafkaError | None, _message: Message) -> None:
        nonlocal confirmed
        confirmed += error is None
        if error is None and confirmed % 100 == 0:
            print(f"confirmed {confirmed}", flush=True)

    signal.signal(signal.SIGTERM, end)
    acks = "all" if args.fixed else "1"
    settings = {"bootstrap.servers": args.bootstrap, "client.id": "orders-python", "acks": acks}
    producer = Producer(settings)
    number = 0
    while not is_ending:
        producer.produce(args.topic, f"order {number} of customer-4711".encode(), on_delivery=note)
        number += 1
        producer.poll(0)
        time.sleep(0.002)
    producer.flush(60)
    print(f"confirmed {confirmed} in all", flush=True)


if __name__ == "__main__":
    main()
