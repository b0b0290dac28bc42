"""Wire faults at a node: a Kafka-aware proxy in its network namespace, and the harness's end of it."""
