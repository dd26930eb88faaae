"""The audit of an index: its promises, held against what its topics hold. No Kafka in here."""
