"""Records to pages: files, lines, WARC, messages of crawlers, encodings."""
