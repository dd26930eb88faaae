"""What is done to an index beside judging: snapshots, restoring, another number of shards."""
