"""One run from its first namespace to its record: cluster view, triggers, schedule, display, collection."""
