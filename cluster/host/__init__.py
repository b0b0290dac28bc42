"""Everything that the harness makes on the host, and how each thing is undone.

Processes, network namespaces, a bridge, volumes, containers and a write-back hold. Each thing that outlives the
harness's own memory is a ledger entry (`cluster.host.ledger`) that undoes itself.
"""
