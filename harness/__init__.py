"""Makes a run: scenario, cluster, faults, workloads, and the run record they leave behind."""

__version__ = "0.1.0"
