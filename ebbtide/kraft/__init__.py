"""The KRaft metadata log: decode it, follow it while a controller writes it, replay it into state."""
