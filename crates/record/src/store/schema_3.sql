-- The reason of a void trial is a word with its data; records of schema 1 of the JSON have a sentence.
DROP VIEW measured;
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
       coalesce(json_extract(trial.record, '$.void.text'),
                json_extract(trial.record, '$.void.reason')) AS void,
       trial.id                                        AS trial
FROM trial JOIN result ON result.cell = trial.cell
WHERE trial.kind = 'trial';
