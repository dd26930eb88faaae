"""The index: a pure state machine over band keys, and its sorted runs on disk."""
