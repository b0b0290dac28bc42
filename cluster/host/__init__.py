"""What the harness makes on the host: processes, network namespaces, a bridge, volumes, a write-back hold.

Each thing that outlives the harness's own memory is a ledger entry (`cluster.host.ledger`) that knows how to
undo itself.
"""
