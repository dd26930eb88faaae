"""The index: a pure state machine over band keys, and its store on disk."""
