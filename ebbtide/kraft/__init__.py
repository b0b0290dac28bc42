"""The metadata log: its records, images and snapshots, followed live or at rest."""
