"""The command: runs, replays, shrinks, draws and judges scenarios."""
