"""The run record: tables, manifest, steps. The contract between making a run and judging it."""
