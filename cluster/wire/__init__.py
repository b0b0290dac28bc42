"""Wire faults: a Kafka-aware proxy in a node's namespace, and the harness's side."""
