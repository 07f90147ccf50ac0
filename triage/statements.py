"""Every statement that the stages and commands ask the store for, by name. SQL stands here and in the store, nowhere else."""

from __future__ import annotations

ACTS = "('slurm.preempt', 'slurm.requeue', 'slurm.node_fail', 'slurm.job_killed', 'slurm.job_end')"
DUMPS = "('flight.dump', 'flight.group', 'flight.status', 'flight.entry', 'torch.flight')"

QUERIES: dict[str, str] = {
    "source_ids": "SELECT source_id, zone FROM sources ORDER BY source_id",
    "source_paths": "SELECT source_id, path FROM sources",
    "source_owners": "SELECT source_id, host, host_from, job_id, job_from, year_from, first_ts, last_ts FROM sources",
    "source_spans": "SELECT source_id, first_ts, last_ts, year_from, year_shift FROM sources WHERE first_ts IS NOT NULL",
    "sources": "SELECT * FROM sources ORDER BY path, source_id",
    "coverage": "SELECT * FROM coverage ORDER BY ALL",
    "claimed_lines": "SELECT source_id, line_first, line_last FROM events WHERE list_contains($sources, source_id)",
    "stacks": """SELECT * FROM events WHERE code = 'stack.dump' AND job_id IS NOT NULL AND attempt IS NOT NULL
        ORDER BY source_id, line_first""",
    "known_sources": "SELECT source_id, digest, name_part, path, head, marks, bytes, lines, zone FROM sources",
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
    "boot_spans": "SELECT source_id, boot_first, boot_last FROM coverage WHERE boot_first IS NOT NULL",
    "boot_times": "SELECT DISTINCT host, ts FROM state_records WHERE state = 'boot' AND ts IS NOT NULL ORDER BY ALL",
    "known_hosts": "SELECT host FROM all_hosts",
    "pods": "SELECT pod, node FROM pods",
    "placed": "SELECT 1 FROM events WHERE code = 'k8s.pod_placed' LIMIT 1",
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
    "telling_events": """SELECT host, device, code, job_id, attempt, rank, peer, severity, state, signal, exit_code, ts_near, boot_s,
            source_id, line_first, event_id, ts, ts_last, family, message, op, seq, duration_s, repeats
        FROM events WHERE list_contains($codes, code)
        ORDER BY host NULLS LAST, device NULLS LAST, code NULLS LAST, job_id NULLS LAST, attempt NULLS LAST, rank NULLS LAST,
            peer NULLS LAST, severity NULLS LAST, state NULLS LAST, signal NULLS LAST, exit_code NULLS LAST, ts_near NULLS LAST,
            boot_s NULLS LAST, source_id NULLS LAST, line_first NULLS LAST, event_id NULLS LAST""",
    "hosts": "SELECT * FROM hosts",
    "covered": "SELECT * FROM covered",
    "telling_bursts": """SELECT * REPLACE (epoch_us(first) AS first, epoch_us("last") AS "last") FROM bursts
        WHERE role NOT IN ('fact', 'noise')""",
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
    "first_steps": """SELECT job_id, attempt, 'train.step' AS code, min(ts_near) AS ts_near FROM events
        WHERE code = 'train.step' AND job_id IS NOT NULL AND ts_near IS NOT NULL GROUP BY job_id, attempt""",
    "exclusions": "SELECT DISTINCT job_id, unnest(excluded) AS host FROM job_records WHERE len(excluded) > 0 ORDER BY ALL",
    "faults": """SELECT host, epoch_us(first) AS first FROM bursts
        WHERE host IS NOT NULL AND first IS NOT NULL AND (role = 'root' OR code IN ('slurm.node_down', 'slurm.node_fail'))""",
    "accused": """SELECT DISTINCT f.host, i.start, f.role = 'culprit' OR f.code IN ('slurm.node_down', 'slurm.node_fail')
            OR (i.confidence <> 'insufficient' AND i.layer NOT IN ('user', 'storage', 'facility', 'scheduler')) AS sure
        FROM findings f JOIN incidents i USING (incident_id)
        WHERE f.role IN ('culprit', 'suspect') AND f.host IS NOT NULL
            AND i.start IS NOT NULL AND i.kind <> 'shared' AND i.class <> 'T23'""",
    "failure_times": """SELECT start FROM incidents
        WHERE job_id IS NOT NULL AND start IS NOT NULL AND list_contains($classes, class) ORDER BY start""",
    "job_failures": "SELECT count(*) AS n FROM incidents WHERE job_id IS NOT NULL AND list_contains($classes, class)",
    "private_names": r"""SELECT 'user' AS kind, "user" AS name FROM jobs UNION SELECT 'user', "user" FROM job_records
        UNION SELECT 'user', "user" FROM events UNION SELECT 'user', "user" FROM host_states UNION SELECT 'user', "user" FROM state_records
        UNION SELECT 'user', regexp_extract(path, '(?:home|homes|[Uu]sers)/([^/]+)', 1) FROM sources
        UNION SELECT 'user', regexp_extract(message, '(?:home|homes|[Uu]sers)/([^/\s:,;]+)', 1) FROM events WHERE contains(message, '/')
        UNION SELECT 'serial', unnest(gpu_serials) FROM host_records
        UNION SELECT 'serial', regexp_extract(attrs, '"serial": ?"?([^",}]+)', 1) FROM events WHERE code = 'gpu.identity'
        UNION SELECT 'job', name FROM jobs UNION SELECT 'host', host FROM all_hosts UNION SELECT 'host', host FROM events
        UNION SELECT 'host', unnest(hosts) FROM job_records UNION SELECT 'host', host FROM job_hosts UNION SELECT 'host', host FROM hosts
        UNION SELECT 'host', peer FROM events WHERE NOT regexp_matches(peer, '^[0-9.:]+$')""",
    "run_seconds": """SELECT sum(epoch(coalesce("end", (SELECT max(last_ts) FROM sources)) - start)) AS s FROM jobs
        WHERE start IS NOT NULL""",
}

PARTS: dict[str, str] = {
    "": "",
    "none": "WHERE false",
    "training": "WHERE code IN ('train.step', 'train.checkpoint') AND job_id IS NOT NULL ORDER BY job_id",
    "saves": "WHERE code = 'train.checkpoint'",
    "codes": "WHERE list_contains($codes, code)",
    "accused": "WHERE role IN ('culprit', 'suspect') AND host IS NOT NULL",
}
"""Which rows of a table `Store.frame` takes."""

SIGNS = """SELECT host, code, role, unnest([min(first), max(first)]) AS first, unnest([count(*), 0]) AS number FROM bursts
        WHERE first > $since AND first <= $now GROUP BY host, code, role
    UNION ALL SELECT host, min(code), min(role), min(first), count(*) FROM bursts
        WHERE first IS NULL OR first <= $since OR first > $now GROUP BY host"""
"""Of the bursts between two times the first and the last of each host, code and role, and of the others the first of each host."""

IN_ORDER: dict[str, str] = {"bursts": "first NULLS LAST, host NULLS LAST, device NULLS LAST, burst_id NULLS LAST"}
"""How the rows of a table lie that is written by `Store.replace_sorted`."""


def _listed(columns: str, tables: str, filters: str, when: str, key: str) -> str:
    """A page of a list: newest first, rows without time last, then by key; it goes on after the row of `$at` and `$after`."""
    at = f"coalesce({when}, TIMESTAMP '0001-01-01')"
    return f"""SELECT {columns}, {key} AS key FROM {tables} WHERE {filters}
        AND ($at IS NULL OR {at} < $at::TIMESTAMP OR ({at} = $at::TIMESTAMP AND {key} > $after))
        ORDER BY {at} DESC, {key} LIMIT $most"""


def _wanted(*columns: str) -> str:
    """Each filter holds where it is given."""
    return " AND ".join(f"(${c.rpartition('.')[2]} IS NULL OR {c} = ${c.rpartition('.')[2]})" for c in columns)


_BURST = 'burst_id, host, device, code, role, class, layer, "first", "last", "count", job_id, attempt, rank, message, source_id, line'
_INCIDENT = 'incident_id, kind, start, "end", job_id, attempt, class, layer, action, confidence, summary, hosts, gpu_hours_lost'
_ATTEMPT = 'j.job_id, j.attempt, j.name, j."user", j.state, j.nodes, j.gpus, j.start, j."end", j.gpu_hours_lost, j.basis'

QUERIES |= {
    "site_size": "SELECT (SELECT count(*) FROM bursts) AS bursts",
    "site_totals": """SELECT (SELECT count(*) FROM incidents) AS incidents, (SELECT count(*) FROM hosts) AS hosts,
        (SELECT count(DISTINCT job_id) FROM jobs) AS jobs, (SELECT count(*) FROM bursts) AS bursts, (SELECT count(*) FROM events) AS events,
        (SELECT count(*) FROM sources) AS sources, (SELECT count(*) FROM rejects) AS rejects,
        (SELECT count(*) FROM recurrence WHERE lemon) AS lemons,
        (SELECT max(last_ts) FROM sources) AS now, (SELECT coalesce(sum(gpu_hours_lost), 0) FROM jobs) AS lost""",
    "site_days": """SELECT date_trunc('day', start) AS day, count(*) AS n FROM incidents
        WHERE start > (SELECT max(start) FROM incidents) - INTERVAL 60 DAY GROUP BY day ORDER BY day""",
    "site_classes": """SELECT class, count(*) AS n, sum(gpu_hours_lost) AS lost FROM incidents
        GROUP BY class ORDER BY n DESC, class LIMIT 12""",
    "site_incidents": _listed(
        _INCIDENT,
        "incidents",
        _wanted("class", "action", "layer", "confidence", "kind") + " AND ($host IS NULL OR list_contains(hosts, $host))",
        "start",
        "incident_id",
    ),
    "site_incident": "SELECT * FROM incidents WHERE incident_id = $incident",
    "site_decision": "SELECT * FROM decisions WHERE incident_id = $incident",
    "site_findings": """SELECT f.*, s.path FROM (SELECT * FROM findings WHERE incident_id = $incident ORDER BY place LIMIT $most) f
        LEFT JOIN sources s USING (source_id) ORDER BY f.place""",
    "site_evidence": """SELECT b.* REPLACE (coalesce(b.host, r.host) AS host), s.path FROM (SELECT i.role AS part, b.* FROM (
            SELECT burst_id, role FROM incident_bursts WHERE incident_id = $incident) i JOIN bursts b USING (burst_id)
            ORDER BY i.role <> 'root', b."first" NULLS LAST, b.burst_id LIMIT $most) b
        LEFT JOIN sources s USING (source_id)
        LEFT JOIN (SELECT job_id, attempt, rank, min(host) AS host FROM ranks
            WHERE job_id = (SELECT job_id FROM incidents WHERE incident_id = $incident) GROUP BY ALL) r
        ON r.job_id = b.job_id AND r.attempt = b.attempt AND r.rank = b.rank ORDER BY b."first" NULLS LAST, b.burst_id""",
    "site_evidence_count": "SELECT count(*) AS n FROM incident_bursts WHERE incident_id = $incident",
    "site_spares": "SELECT host, why FROM spares WHERE incident_id = $incident ORDER BY place LIMIT 20",
    "site_earlier": f"""SELECT {_INCIDENT} FROM incidents
        WHERE incident_id <> $incident AND list_has_any(hosts, $hosts) AND start <= $start::TIMESTAMP
        ORDER BY start DESC, incident_id LIMIT 10""",
    "site_hosts": """SELECT h.*, b.faults, b.last_fault, i.incidents, r.lemon, r.place, s.state FROM (
            SELECT * FROM hosts
            WHERE ($after IS NULL OR host > $after) AND ($rack IS NULL OR rack = $rack) AND ($leaf IS NULL OR leaf = $leaf)
                AND ($named IS NULL OR contains(lower(host), lower($named)))
            ORDER BY host LIMIT $most) h
        LEFT JOIN (SELECT host, count(*) AS faults, max("last") AS last_fault FROM bursts WHERE role = 'root' GROUP BY host) b USING (host)
        LEFT JOIN (SELECT host, count(*) AS incidents FROM (SELECT unnest(hosts) AS host FROM incidents) GROUP BY host) i USING (host)
        LEFT JOIN recurrence r USING (host)
        LEFT JOIN (SELECT host, arg_max(state, start) AS state FROM host_states WHERE start IS NOT NULL GROUP BY host) s USING (host)
        ORDER BY h.host""",
    "site_host": """SELECT h.* EXCLUDE (host), $host AS host, r.place, r.score, r.rate, r.low, r.high, r.lemon, r.strikes, r."next", r.why,
            (SELECT count(*) FROM bursts WHERE host = $host) AS bursts, (SELECT count(*) FROM job_hosts WHERE host = $host) AS runs,
            (SELECT count(*) FROM host_states WHERE host = $host) AS states, h.host IS NOT NULL OR r.host IS NOT NULL AS listed
        FROM (SELECT 1) LEFT JOIN (SELECT * FROM hosts WHERE host = $host) h ON true
        LEFT JOIN (SELECT * FROM recurrence WHERE host = $host) r ON true""",
    "site_host_bursts": f'SELECT {_BURST} FROM bursts WHERE host = $host ORDER BY "first" DESC NULLS LAST, burst_id LIMIT 30',
    "site_host_codes": """SELECT code, role, device, count(*) AS bursts, sum("count") AS lines, min("first") AS since, max("last") AS until
        FROM bursts WHERE host = $host GROUP BY ALL ORDER BY bursts DESC, code, role, device LIMIT 40""",
    "site_host_days": """SELECT date_trunc('day', "first") AS day, count(*) AS n FROM bursts WHERE host = $host AND role = 'root'
        AND "first" > (SELECT max(last_ts) FROM sources) - INTERVAL 60 DAY GROUP BY day ORDER BY day""",
    "site_host_jobs": f"""SELECT {_ATTEMPT} FROM (SELECT job_id, attempt FROM job_hosts WHERE host = $host) h
        JOIN jobs j USING (job_id, attempt)
        ORDER BY j.start DESC NULLS LAST, j.job_id, j.attempt LIMIT 20""",
    "site_host_incidents": f"""SELECT {_INCIDENT} FROM incidents WHERE list_contains(hosts, $host)
        ORDER BY start DESC NULLS LAST, incident_id LIMIT 20""",
    "site_host_states": """SELECT state, start, "end", reason, "user" FROM host_states WHERE host = $host
        ORDER BY start DESC NULLS LAST, state LIMIT 30""",
    "site_lemons": """SELECT place, host, score, rate, low, high, lemon, strikes, "next", why FROM recurrence
        WHERE place > coalesce(try_cast($after AS BIGINT), 0) AND ($lemon IS NULL OR lemon = ($lemon = 'yes'))
        ORDER BY place LIMIT $most""",
    "site_jobs": _listed(
        _ATTEMPT,
        "jobs j",
        _wanted("j.state", "j.user", "j.partition").replace("j.user", 'j."user"')
        + " AND ($named IS NULL OR contains(lower(j.name), lower($named))) AND ($host IS NULL OR (j.job_id, j.attempt) IN "
        "(SELECT (job_id, attempt) FROM job_hosts WHERE host = $host))",
        "j.start",
        "(j.job_id || '/' || j.attempt)",
    ),
    "site_job": "SELECT * FROM jobs WHERE job_id = $job ORDER BY attempt LIMIT 100",
    "site_job_hosts": "SELECT attempt, host FROM job_hosts WHERE job_id = $job ORDER BY attempt, host LIMIT 5000",
    "site_job_incidents": f"""SELECT {_INCIDENT} FROM incidents WHERE job_id = $job OR list_contains(jobs, $job)
        ORDER BY start, incident_id LIMIT 50""",
    "site_job_bursts": f'SELECT {_BURST} FROM bursts WHERE job_id = $job ORDER BY "first" NULLS LAST, burst_id LIMIT 50',
    "site_bursts": _listed(_BURST, "bursts", _wanted("host", "code", "role", "job_id"), '"first"', "burst_id"),
    "site_burst": "SELECT b.*, s.path FROM (SELECT * FROM bursts WHERE burst_id = $burst) b LEFT JOIN sources s USING (source_id)",
    "site_burst_incidents": f"""SELECT {_INCIDENT} FROM incidents
        WHERE incident_id IN (SELECT incident_id FROM incident_bursts WHERE burst_id = $burst)
        ORDER BY start DESC NULLS LAST, incident_id LIMIT 20""",
    "site_near": f"""SELECT {_BURST} FROM bursts WHERE host = $host AND burst_id <> $burst
        AND "first" BETWEEN $at::TIMESTAMP - INTERVAL 10 MINUTE AND $at::TIMESTAMP + INTERVAL 10 MINUTE
        ORDER BY "first", burst_id LIMIT 30""",
    "site_codes": """SELECT code, list_sort(list(DISTINCT role)) AS roles, count(*) AS bursts, sum("count") AS lines,
            count(DISTINCT host) AS hosts, max("last") AS until
        FROM bursts WHERE ($after IS NULL OR code > $after) AND ($role IS NULL OR role = $role) GROUP BY code ORDER BY code LIMIT $most""",
    "site_code_hosts": """SELECT host, count(*) AS bursts, sum("count") AS lines, min("first") AS since, max("last") AS until FROM bursts
        WHERE code = $code AND host IS NOT NULL GROUP BY host ORDER BY bursts DESC, host LIMIT 30""",
    "site_sources": """SELECT *, path || ' ' || source_id AS key FROM sources WHERE ($after IS NULL OR path || ' ' || source_id > $after)
        AND ($host IS NULL OR host = $host) ORDER BY key LIMIT $most""",
    "site_find_hosts": """SELECT host, rack, gpu_model FROM hosts WHERE contains(lower(host), lower($text))
        ORDER BY lower(host) <> lower($text), NOT starts_with(lower(host), lower($text)), host LIMIT 20""",
    "site_find_jobs": """SELECT job_id, max(name) AS name, max(state) AS state, max(start) AS start FROM jobs
        WHERE contains(lower(job_id), lower($text)) OR contains(lower(name), lower($text)) GROUP BY job_id
        ORDER BY job_id <> $text, max(start) DESC NULLS LAST, job_id LIMIT 20""",
    "site_find_codes": """SELECT code, count(*) AS bursts, count(DISTINCT host) AS hosts FROM bursts
        WHERE contains(lower(code), lower($text)) GROUP BY code ORDER BY lower(code) <> lower($text), bursts DESC, code LIMIT 20""",
    "site_find_incidents": f"""SELECT {_INCIDENT} FROM incidents
        WHERE contains(lower(incident_id), lower($text)) OR contains(lower(summary), lower($text))
        ORDER BY start DESC NULLS LAST, incident_id LIMIT 20""",
}

_NO_SOURCE = "count(*) AS n FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM sources s WHERE s.source_id = t.source_id)"
_NO_INCIDENT = "count(*) AS n FROM {table} t WHERE NOT EXISTS (SELECT 1 FROM incidents i WHERE i.incident_id = t.incident_id)"

ORPHANS: dict[str, str] = {
    f"{table}: rows of a source that is not there": f"SELECT {_NO_SOURCE.format(table=table)}"
    for table in ("events", "rejects", "job_records", "state_records", "host_records", "rank_records", "coverage")
}
"""What must not be in the tables that ingest fills, as a count of it."""

LOOSE_ENDS: dict[str, str] = {
    "bursts: rows of a source that is not there": f"SELECT {_NO_SOURCE.format(table='bursts')}",
    "bursts: rows whose first event is not there": """SELECT count(*) AS n FROM bursts b
        WHERE NOT EXISTS (SELECT 1 FROM events e WHERE e.event_id = b.burst_id)""",
    "incident_bursts: bursts that are not there": """SELECT count(*) AS n FROM incident_bursts i
        WHERE NOT EXISTS (SELECT 1 FROM bursts b WHERE b.burst_id = i.burst_id)""",
    **{
        f"{table}: rows of an incident that is not there": f"SELECT {_NO_INCIDENT.format(table=table)}"
        for table in ("incident_bursts", "findings", "decisions", "spares")
    },
    "incidents: without a decision": """SELECT count(*) AS n FROM incidents i
        WHERE NOT EXISTS (SELECT 1 FROM decisions d WHERE d.incident_id = i.incident_id)""",
    "job_hosts: attempts that are not there": """SELECT count(*) AS n FROM job_hosts h
        WHERE NOT EXISTS (SELECT 1 FROM jobs j WHERE j.job_id = h.job_id AND j.attempt = h.attempt)""",
}
"""The same for the tables of the analysis, where it is fresh."""

OLD_ROWS: dict[str, str] = {
    "events": "coalesce(ts_last, ts_near) < $before",
    "job_records": '"end" < $before',
    "state_records": '"end" < $before',
    "coverage": '"last" < $before',
}
"""Rows that are over before a time; a row without an end may still hold, and one without a time is of no time."""

QUERIES |= {
    "extent": """SELECT count(*) AS sources, sum(bytes) AS bytes, sum(lines) AS lines, min(first_ts) AS first, max(last_ts) AS last,
        count(*) FILTER (WHERE last_ts IS NULL) AS undated FROM sources""",
    "old_sources": "SELECT source_id, path, last_ts, lines FROM sources WHERE last_ts < $before ORDER BY path, source_id",
    "paths": "SELECT path FROM sources ORDER BY path",
    "columns": """SELECT table_name AS "table", column_name AS "column", data_type AS type FROM information_schema.columns
        WHERE table_catalog = current_database() AND table_schema = 'main'""",
    "strangers": """SELECT table_name AS name FROM information_schema.tables WHERE table_catalog = current_database()
        AND table_type = 'BASE TABLE' AND NOT list_contains($ours, table_name) ORDER BY name""",
    "blocks": "SELECT block_size, total_blocks, free_blocks FROM pragma_database_size() WHERE database_name = current_database()",
}
