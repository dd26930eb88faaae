"""Show what the verdicts say of the rows, with DuckDB: report.py VERDICTS FOLDER."""

import sys
from pathlib import Path

import duckdb

verdicts = duckdb.read_json(sys.argv[1], sample_size=-1)
files = Path(sys.argv[2], "**", "*.parquet")  # without a leading ./, as verdicts name them
rows = duckdb.read_parquet(str(files), filename=True, file_row_number=True)

print(duckdb.sql("SELECT verdict, basis, count(*) pages FROM verdicts GROUP BY ALL ORDER BY ALL"))

# A page is a file (`topic`) and the number of a row in it (`offset`).
MOST_COPIED = """
    SELECT rows.url, count(*) AS duplicates, min(similarity) AS least_similarity
    FROM verdicts JOIN rows
        ON verdicts.representative.page.topic = rows.filename
        AND verdicts.representative.page."offset" = rows.file_row_number
    GROUP BY filename, file_row_number, rows.url
    ORDER BY duplicates DESC, rows.url
    LIMIT 5
"""
print(duckdb.sql(MOST_COPIED))
