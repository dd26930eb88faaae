"""Damaged and hostile data: index files, full disks, records, bombs, forged pages."""

from tests.campaign import bombs, disk_full, forgery, forgotten, index_files, records
from tests.campaign.campaign import Row

ROWS = (
    Row(
        "index-files",
        "a byte of an index is flipped, or a file of it is cut short or removed; replay or a worker"
        " gives the same verdicts, or refuses it and changes nothing",
        *(1_000, 40, index_files.run),
    ),
    Row(
        "disk-full",
        "the disk of index, verdicts and dead letters becomes full at a chosen byte and is emptied;"
        " a replay says so, goes on, and ends with the same bytes; the library loses nothing"
        " that it has flushed",
        *(100, 8, disk_full.run, "root"),
    ),
    Row(
        "records",
        "an input of each format is damaged in one to four places; no crash, no hang, no growth,"
        " and each record has one place",
        *(10_000, 120, records.run),
    ),
    Row(
        "bombs",
        "an input is made to become large by compression, nesting or markup; it is read in bounded"
        " time and memory, and each of its records has one place",
        *(len(bombs.BOMBS), len(bombs.BOMBS) - 6, bombs.run),
    ),
    Row(
        "forgery",
        "an attacker forges a page against each victim with a published key; under a secret key no"
        " victim passes for a page unlike it",
        *(1_000, 24, forgery.run),
    ),
    Row(
        "forgotten",
        "hosts, URLs and crawls are forgotten of an index with every feature; no byte of any file"
        " is of them afterwards, and the index is sound",
        *(100, 6, forgotten.run),
    ),
)
