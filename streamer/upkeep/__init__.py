"""What is done to an index in addition to judging: snapshots, restore, another number of shards."""
