"""What is done to an index in addition to judging: snapshots and restore."""
