"""The sample crawl: pages with planted near-duplicates, and the truth about them."""
