-- The tables of the view (view.py). A view whose tables differ from these, be it in a comment, is made again.

CREATE TABLE input (
    path TEXT PRIMARY KEY,        -- of a topic: NAME/PARTITION
    position INTEGER NOT NULL,    -- bytes of its content that are folded: whole lines; an offset
    lines INTEGER NOT NULL,       -- that these are; messages
    seen_bytes INTEGER NOT NULL,  -- of the file as stored, of which `witness` is a digest; 0
    witness TEXT NOT NULL,        -- of a topic: its id
    passed_over INTEGER NOT NULL DEFAULT 0,  -- verdicts on places that have another URL already
    note TEXT NOT NULL            -- why it is not read further; '': nothing is wrong
) WITHOUT ROWID;
CREATE TABLE source (
    number INTEGER PRIMARY KEY,
    topic TEXT NOT NULL,
    partition INTEGER NOT NULL,
    other TEXT NOT NULL,          -- the reference index that has it; '': the own one
    name TEXT AS (                -- as people write it
        iif(other = '', '', other || ':') || topic || iif(partition = 0, '', '/' || partition)
    ),
    UNIQUE (topic, partition, other)
);
CREATE TABLE fingerprint (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE host (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    pages INTEGER NOT NULL DEFAULT 0,
    duplicates INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE page (
    number INTEGER PRIMARY KEY,   -- in the order of the fold
    ref INTEGER NOT NULL UNIQUE,
    source INTEGER AS (ref >> 40),
    offset INTEGER AS (ref & 0xFFFFFFFFFF),
    url TEXT NOT NULL,
    url_key INTEGER NOT NULL,     -- a hash: an index of URLs would be as large as the table
    host INTEGER NOT NULL,
    cluster INTEGER,              -- NULL: the page is unique
    basis TEXT NOT NULL,
    similarity INTEGER,           -- in ten-thousandths
    same_url INTEGER NOT NULL,
    text_bytes INTEGER NOT NULL,
    fingerprint INTEGER NOT NULL,
    more TEXT                     -- the fields that not every verdict has, as JSON; NULL: none
);
CREATE TABLE cluster (
    ref INTEGER PRIMARY KEY,
    source INTEGER AS (ref >> 40),
    offset INTEGER AS (ref & 0xFFFFFFFFFF),
    url TEXT NOT NULL,            -- of the representative, which may have no verdict here
    host INTEGER NOT NULL,
    duplicates INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE verdict_count (
    verdict TEXT NOT NULL,
    basis TEXT NOT NULL,
    pages INTEGER NOT NULL,
    text_bytes INTEGER NOT NULL,
    PRIMARY KEY (verdict, basis)
) WITHOUT ROWID;
CREATE TABLE similarity_count (similarity INTEGER PRIMARY KEY, pages INTEGER NOT NULL);
CREATE TABLE history (             -- verdicts over time
    slot INTEGER NOT NULL,        -- minute of their messages since 1970; of files, thousand pages
    verdict TEXT NOT NULL,
    basis TEXT NOT NULL,
    pages INTEGER NOT NULL,
    PRIMARY KEY (slot, verdict, basis)
) WITHOUT ROWID;
CREATE TABLE letter (
    number INTEGER PRIMARY KEY,
    ref INTEGER NOT NULL UNIQUE,
    source INTEGER AS (ref >> 40),
    offset INTEGER AS (ref & 0xFFFFFFFFFF),
    code TEXT NOT NULL,
    detail TEXT NOT NULL,
    record_key BLOB,
    record BLOB NOT NULL,         -- its beginning
    value_bytes INTEGER NOT NULL
);
CREATE TABLE letter_count (
    code TEXT NOT NULL,
    source INTEGER NOT NULL,
    letters INTEGER NOT NULL,
    PRIMARY KEY (code, source)
) WITHOUT ROWID;
