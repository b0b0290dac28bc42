"""One run, from its first namespace to its record.

The parts are the cluster view, triggers, schedule, display and collection.
"""
