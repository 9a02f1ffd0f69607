CREATE TABLE run (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment     TEXT NOT NULL,
    started_unix_s REAL NOT NULL,
    touched_unix_s REAL NOT NULL,       -- when something of it was last stored
    state          TEXT NOT NULL CHECK (state IN ('running', 'complete', 'incomplete')),
    plan           TEXT NOT NULL        -- JSON of record::Plan, less its files
);
CREATE TABLE seam (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    seam TEXT NOT NULL                  -- JSON of record::Seam
);
CREATE TABLE skipped (
    id      INTEGER PRIMARY KEY,
    run     INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    skipped TEXT NOT NULL               -- JSON of record::Skipped
);
CREATE TABLE cell (
    id       INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    server   TEXT NOT NULL,
    settings TEXT NOT NULL,             -- JSON, keys sorted
    state    TEXT NOT NULL CHECK (state IN ('planned', 'begun', 'done')),
    record   TEXT NOT NULL,             -- JSON of record::CellRecord, less what has a table
    UNIQUE (run, server, settings)
);
CREATE TABLE trial (
    id            INTEGER PRIMARY KEY,
    cell          INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    kind          TEXT NOT NULL CHECK (kind IN ('trial', 'self-test')),
    repeat        INTEGER NOT NULL,
    rate_qps      REAL NOT NULL,
    stored_unix_s REAL NOT NULL,
    record        TEXT NOT NULL         -- JSON of record::TrialRecord, less what has a table
);
CREATE INDEX trial_of_cell ON trial (cell);
CREATE TABLE histogram (
    trial INTEGER NOT NULL REFERENCES trial ON DELETE CASCADE,
    name  TEXT NOT NULL,                -- latency_us, latency_from_send_us, schedule_error_us
    hdr   BLOB NOT NULL,                -- HDR V2 compressed, nanoseconds
    PRIMARY KEY (trial, name)
) WITHOUT ROWID;
CREATE TABLE series (
    id      INTEGER PRIMARY KEY,
    cell    INTEGER NOT NULL REFERENCES cell ON DELETE CASCADE,
    trial   INTEGER REFERENCES trial ON DELETE CASCADE,
    name    TEXT NOT NULL,
    unit    TEXT NOT NULL,
    samples BLOB NOT NULL               -- pairs of 64-bit floats, little-endian: seconds, value
);
CREATE INDEX series_of_cell ON series (cell);
CREATE TABLE file (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL REFERENCES run ON DELETE CASCADE,
    cell INTEGER REFERENCES cell ON DELETE CASCADE,
    name TEXT NOT NULL,
    text TEXT NOT NULL
);
CREATE INDEX file_of_run ON file (run);
