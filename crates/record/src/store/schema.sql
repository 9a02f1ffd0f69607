CREATE TABLE run (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    experiment     TEXT NOT NULL,
    started_unix_s REAL NOT NULL,
    touched_unix_s REAL NOT NULL,       -- when something of it was last stored
    state          TEXT NOT NULL CHECK (state IN ('running', 'complete', 'incomplete')),
    plan           TEXT NOT NULL,       -- JSON of record::Plan, less its files
    sum            INTEGER              -- CRC-32 of all rows of a run that has ended
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
-- For those who ask by SQL: what stands in the JSON, as columns.
CREATE VIEW result AS
SELECT run.id                                          AS run,
       run.experiment                                  AS experiment,
       cell.server                                     AS server,
       json_extract(cell.record, '$.server_version')   AS server_version,
       cell.settings                                   AS settings,
       cell.state                                      AS state,
       json_extract(cell.record, '$.method')           AS method,
       json_extract(cell.record, '$.median_qps')       AS median_qps,
       json_extract(cell.record, '$.at_least')         AS at_least,
       json_extract(cell.record, '$.repeats')          AS repeats,
       json_extract(cell.record, '$.limiter')          AS limiter,
       cell.id                                         AS cell,
       coalesce(json_extract(cell.record, '$.capacity.qps'),
                json_extract(cell.record, '$.median_qps')) AS capacity_qps
FROM cell JOIN run ON run.id = cell.run;
CREATE VIEW measured AS
SELECT result.run, result.experiment, result.server, result.server_version, result.settings,
       trial.repeat                                    AS repeat,
       trial.rate_qps                                  AS rate_qps,
       json_extract(trial.record, '$.sent')            AS sent,
       json_extract(trial.record, '$.answered')        AS answered,
       json_extract(trial.record, '$.valid')           AS valid,
       json_extract(trial.record, '$.lost')            AS lost,
       json_extract(trial.record, '$.answered_qps')    AS answered_qps,
       json_extract(trial.record, '$.latency_us.p50')  AS latency_p50_us,
       json_extract(trial.record, '$.latency_us.p99')  AS latency_p99_us,
       json_extract(trial.record, '$.passed')          AS passed,
       json_extract(trial.record, '$.void.reason')     AS void,
       trial.id                                        AS trial
FROM trial JOIN result ON result.cell = trial.cell
WHERE trial.kind = 'trial';
