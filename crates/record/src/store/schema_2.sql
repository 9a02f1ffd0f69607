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
       cell.id                                         AS cell
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
       nullif(json_extract(trial.record, '$.void'), 0) AS void,
       trial.id                                        AS trial
FROM trial JOIN result ON result.cell = trial.cell
WHERE trial.kind = 'trial';
