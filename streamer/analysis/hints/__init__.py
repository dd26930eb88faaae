"""Hints for a crawler: which of a host's URLs have the same content, learned from verdicts."""
