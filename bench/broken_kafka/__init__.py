"""Plants bugs in the nodes of real Kafka, one at a time, and says which of them Ebbtide catches."""
