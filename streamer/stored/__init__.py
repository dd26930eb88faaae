"""What an index has on disk, in RocksDB: rows, keys, postings and state, and their look-up."""
