"""Docker images with Kafka: finds the image of a release, or builds one.

- An image that the user names is used as it is.
- Otherwise the official `apache/kafka:<version>` is used, if it is on this host.
- Otherwise `ebbtide/kafka:<version>` is used, built here from the release's jars and this host's Java, without a
  registry.

Nothing is ever pulled: a run must not depend on which image a name means today.
"""
