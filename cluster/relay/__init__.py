"""The relay of published ports: what clients outside of the namespaces send, passed on and recorded."""
