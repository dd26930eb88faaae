"""Tokens to shingles to a signature: min-hashes, band keys, resemblance sketch."""
