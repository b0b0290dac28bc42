"""What Ebbtide knows about Kafka releases."""
