"""Writes an invoice for each order, in transactions, until SIGTERM.

The bug: it commits the offsets of the orders by the consumer, before the transaction with the invoices. If that is
aborted, these orders never get an invoice. `--fixed` sends the offsets in the transaction.
"""

from __future__ import annotations

import argparse
import signal

from confluent_kafka import Consumer, Producer

from ebbtide.handled import handled


def main() -> None:
    """Write invoices; every third transaction is aborted, as if the tax office had not answered."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("orders")
    parser.add_argument("invoices")
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    servers = {"bootstrap.servers": args.bootstrap, "client.id": "invoicer"}
    group = {"group.id": "invoicing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({**servers, **group, "isolation.level": "read_committed"})
    consumer.subscribe([args.orders])
    producer = Producer({**servers, "transactional.id": "invoicer"})
    producer.init_transactions(60)
    is_ending: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _frame: is_ending.append(number))
    transactions = invoices = 0
    while not is_ending:
        orders = [order for order in consumer.consume(50, timeout=0.5) if order.error() is None]
        if not orders:
            continue
        transactions += 1
        producer.begin_transaction()
        for order in orders:
            producer.produce(args.invoices, b"invoice for " + (order.value() or b""))
        producer.flush(60)  # an abort before Kafka knows of the transaction is fatal
        if args.fixed:
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 60
            )
        else:
            consumer.commit(message=orders[-1], asynchronous=False)
        if transactions % 3 == 0:
            producer.abort_transaction(60)
            if args.fixed:  # these orders come again
                for place in consumer.committed(consumer.assignment(), 60):
                    consumer.seek(place)
            continue
        producer.commit_transaction(60)
        for order in orders:
            handled(order)
        invoices += len(orders)
        print(f"invoices {invoices // 100 * 100}", flush=True)
    consumer.close()


if __name__ == "__main__":
    main()
