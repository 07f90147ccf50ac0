"""Every statement that the stages and commands ask the store for, by name. SQL stands here and in the store, nowhere else."""

from __future__ import annotations

ACTS = "('slurm.preempt', 'slurm.requeue', 'slurm.node_fail', 'slurm.job_killed', 'slurm.job_end')"
DUMPS = "('flight.dump', 'flight.status', 'flight.entry', 'torch.flight')"

QUERIES: dict[str, str] = {
    "source_ids": "SELECT source_id FROM sources ORDER BY source_id",
    "source_paths": "SELECT source_id, path FROM sources",
    "source_owners": "SELECT source_id, host, host_from, job_id, job_from, year_from FROM sources",
    "source_spans": "SELECT source_id, first_ts, last_ts, year_from, year_shift FROM sources WHERE first_ts IS NOT NULL",
    "known_sources": "SELECT source_id, digest, name_part, path, head, marks, bytes, lines FROM sources",
    "source_events": "SELECT line_first, line_last, code, message FROM events WHERE source_id = $source",
    "source_rejects": "SELECT line, reason FROM rejects WHERE source_id = $source",
    "source_views": "SELECT * FROM source_views",
    "last_stamp": "SELECT max(last_ts) AS now FROM sources",
    "totals": """SELECT (SELECT count(*) FROM events) AS events, (SELECT count(*) FROM rejects) AS rejects,
        (SELECT count(*) FROM sources) AS sources""",
    "reject_count": "SELECT count(*) AS n FROM rejects",
    "recorded_jobs": "SELECT DISTINCT job_id FROM job_records",
    "recorded_runs": 'SELECT job_id, hosts, start, "end" FROM job_records WHERE start IS NOT NULL AND len(hosts) > 0',
    "unanchored": """SELECT event_id, source_id, line_first, host, code, message, boot_s FROM events
        WHERE boot_s IS NOT NULL AND (ts IS NULL OR anchor IS NOT NULL) ORDER BY event_id""",
    "anchors": """SELECT source_id, line_first, host, code, message, boot_s, ts FROM events
        WHERE boot_s IS NOT NULL AND ts IS NOT NULL AND anchor IS NULL ORDER BY event_id""",
    "boot_times": "SELECT DISTINCT host, ts FROM state_records WHERE state = 'boot' AND ts IS NOT NULL ORDER BY ALL",
    "known_hosts": "SELECT host FROM all_hosts",
    "job_records": "SELECT * FROM job_records",
    "job_acts": f"SELECT * FROM events WHERE job_id IS NOT NULL AND code IN {ACTS}",
    "job_outputs": "SELECT * FROM job_outputs",
    "collected_hosts": """SELECT host, min(first) AS first, max("last") AS last_ts FROM covered
        WHERE family = 'kernel' AND host IS NOT NULL AND first IS NOT NULL GROUP BY host""",
    "checkpoints": """SELECT job_id, ts_near FROM events
        WHERE code = 'train.checkpoint' AND state = 'saved' AND ts_near IS NOT NULL AND job_id IS NOT NULL""",
    "world_sizes": """SELECT coalesce(r.job_id, s.job_id) AS job_id, max(r.nranks) AS size, NULL AS ranks
        FROM rank_records r JOIN sources s USING (source_id) WHERE coalesce(r.job_id, s.job_id) IS NOT NULL GROUP BY ALL
        UNION ALL SELECT job_id, NULL, max(rank) + 1 FROM events WHERE job_id IS NOT NULL AND rank IS NOT NULL GROUP BY job_id""",
    "host_gpus": "SELECT host, max(gpus) AS gpus FROM host_records WHERE gpus IS NOT NULL GROUP BY host",
    "host_records": "SELECT * FROM host_records",
    "state_records": 'SELECT host, state, ts AS start, "end", reason, "user", basis, source_id, line FROM state_records',
    "rank_views": "SELECT * FROM rank_views",
    "codes": "SELECT DISTINCT code FROM events ORDER BY code",
    "hosts": "SELECT * FROM hosts",
    "covered": "SELECT * FROM covered",
    "telling_bursts": "SELECT * FROM bursts WHERE role NOT IN ('fact', 'noise')",
    "job_hosts": "SELECT job_id, attempt, host FROM job_hosts ORDER BY host",
    "jobs": "SELECT * FROM jobs ORDER BY start, job_id, attempt",
    "host_states": "SELECT * FROM host_states ORDER BY host, start, source_id, line",
    "ranks": "SELECT * FROM ranks",
    "steps": """SELECT job_id, attempt, seq, ts, duration_s, value, rank, source_id, line_first FROM events
        WHERE code = 'train.step' AND job_id IS NOT NULL AND attempt IS NOT NULL ORDER BY source_id, line_first""",
    "dumps": f"SELECT * FROM events WHERE code IN {DUMPS} AND job_id IS NOT NULL AND attempt IS NOT NULL ORDER BY event_id",
    "incidents": "SELECT * FROM incidents ORDER BY start DESC NULLS LAST, incident_id",
    "lemons": "SELECT host, why FROM recurrence WHERE lemon ORDER BY place",
    "bursts": """SELECT b.*, s.path FROM bursts b JOIN sources s USING (source_id)
        WHERE ($host IS NULL OR b.host = $host) AND ($code IS NULL OR b.code = $code)
        ORDER BY b.first NULLS LAST, b.burst_id LIMIT $most""",
    "job_failures": "SELECT count(*) AS n FROM incidents WHERE job_id IS NOT NULL AND list_contains($classes, class)",
    "run_seconds": """SELECT sum(epoch(coalesce("end", (SELECT max(last_ts) FROM sources)) - start)) AS s FROM jobs
        WHERE start IS NOT NULL""",
}

PARTS: dict[str, str] = {
    "": "",
    "none": "WHERE false",
    "training": "WHERE code IN ('train.step', 'train.checkpoint')",
    "codes": "WHERE list_contains($codes, code)",
}
"""Which rows of a table `Store.frame` takes."""
