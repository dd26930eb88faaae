"""The index as a state machine: records in, verdicts out. It does no input or output."""
