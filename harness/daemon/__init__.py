"""The daemon: a process that owns a cluster by hand.

Other commands reach it over a socket.
"""
