"""Bytes to visible text to tokens: charset, HTML scanner, canonical form."""
