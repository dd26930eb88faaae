"""The index as a state machine: records in, verdicts out, without I/O."""
