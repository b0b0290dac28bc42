"""What Ebbtide knows of Kafka releases."""
