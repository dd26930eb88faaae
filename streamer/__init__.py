"""Streaming near-duplicate detection: crawled pages in, one verdict a page out."""

__version__ = "0.1.0"
