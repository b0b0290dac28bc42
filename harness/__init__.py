"""The command: runs, replays, shrinks and draws scenarios, and has the records judged."""
