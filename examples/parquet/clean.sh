#!/bin/sh
# Write the pages of a folder of Parquet files into one, without near-duplicates: clean.sh FOLDER OUT.parquet
set -eu
pages=$1
out=$2
verdicts=${out%.parquet}.verdicts.jsonl

# One verdict a row. With --index, the same command goes on after an interruption.
streamer replay "$pages" --verdicts "$verdicts" --index "${out%.parquet}.index"

# Of each cluster the page with the most text, with all columns.
streamer select "$verdicts" "$pages" --policy longest --out "$out" --overwrite

python "$(dirname "$0")/report.py" "$verdicts" "$pages"
