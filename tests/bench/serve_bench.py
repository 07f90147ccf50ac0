"""Time every page of `triage serve` over a made-up database of ten million events; prints one table, asserts nothing.

    python tests/bench/serve_bench.py [--events 10000000] [--db FILE]

The database is filled by DuckDB's own ranges (events, 1 in 50 a burst, 1 in 2,000 an incident) and is removed again unless --db names it.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import duckdb

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from starlette.testclient import TestClient

from triage import rulebook
from triage.pipeline import stamp_of
from triage.serve.app import Site, build
from triage.serve.reader import HOLD_S
from triage.store import Store

HOSTS, REPEATS, COLD = 2000, 15, 3

MACROS = f"""
CREATE TEMP MACRO pick(words, i, salt) AS words[1 + (hash(i, salt) % len(words))::INT];
CREATE TEMP MACRO host_of(i) AS format('gpu-{{:04d}}', hash(i, 'h') % {HOSTS});
CREATE TEMP MACRO device_of(i) AS format('0000:{{:02x}}:00', (hash(i, 'd') % 8)::INT * 16 + 11);
CREATE TEMP MACRO time_of(i) AS TIMESTAMP '2026-01-01' + to_microseconds((hash(i, 't') % 15552000000000)::BIGINT);
CREATE TEMP MACRO text_of(i) AS 'NVRM: Xid (PCI:0000:3b:00): 79, pid=' || (hash(i, 'p') % 90000) || ', GPU has fallen off the bus.';
CREATE TEMP MACRO source_of(i) AS 's' || (i % 4000);
CREATE TEMP MACRO event_of(i) AS source_of(i) || ':' || i || ':0';
CREATE TEMP MACRO incident_of(i) AS 'job-' || (100000 + i) || '-0';
CREATE TEMP MACRO code_of(i) AS
    pick(['xid.79', 'xid.94', 'xid.13', 'xid.31', 'xid.63', 'nccl.timeout', 'torch.rank_exit', 'slurm.node_fail'], i, 'c');
CREATE TEMP MACRO role_of(i) AS pick(['root', 'root', 'symptom', 'symptom', 'precursor', 'symptom', 'outcome', 'outcome'], i, 'c');
"""


def statements(events: int) -> str:
    """What fills the tables, made of ranges and hashes, so that every run makes the same rows."""
    bursts, incidents, jobs = events // 50, events // 2000, max(10, events // 500)
    return f"""
INSERT INTO events BY NAME SELECT event_of(i) AS event_id, source_of(i) AS source_id, i AS line_first, i AS line_last, time_of(i) AS ts,
    time_of(i) AS ts_last, time_of(i) AS ts_near, 'exact' AS ts_quality, host_of(i) AS host, 'line' AS host_from, device_of(i) AS device,
    'gpu' AS family, code_of(i) AS code, text_of(i) AS message, 1 AS repeats FROM range({events}) t(i);
INSERT INTO bursts BY NAME SELECT event_of(i) AS burst_id, host_of(i) AS host, device_of(i) AS device, code_of(i) AS code, 'gpu' AS family,
    'T01' AS class, role_of(i) AS role, 'gpu' AS layer, time_of(i) AS first, time_of(i) + INTERVAL 3 SECOND AS last, true AS timed,
    hash(i, 'n') % 90 + 1 AS count, 3 AS events, (100000 + hash(i, 'j') % {jobs})::VARCHAR AS job_id, 0 AS attempt, text_of(i) AS message,
    source_of(i) AS source_id, i AS line, 1 AS copies FROM range({bursts}) t(i);
INSERT INTO incidents BY NAME SELECT incident_of(i) AS incident_id, 'job' AS kind, time_of(i) AS start, time_of(i) + INTERVAL 1 HOUR AS end,
    (100000 + i)::VARCHAR AS job_id, 0 AS attempt, 'T01' AS class, 1 AS symptom, 'fail_stop' AS manifestation, 'gpu' AS layer,
    'isolate_now' AS action, 'confirmed' AS confidence, 'gpu.off_bus' AS rule_id,
    'a GPU of ' || host_of(i) || ' fell off the bus' AS summary, [host_of(i)] AS hosts, [(100000 + i)::VARCHAR] AS jobs,
    (hash(i, 'g') % 9000) / 10 AS gpu_hours_lost FROM range({incidents}) t(i);
INSERT INTO incident_bursts SELECT incident_of(i % {incidents}), event_of(i), role_of(i) FROM range({bursts // 2}) t(i);
INSERT INTO findings BY NAME SELECT incident_of(i // 3) AS incident_id, i % 3 + 1 AS place, host_of(i) AS host, device_of(i) AS device,
    ['culprit', 'suspect', 'victim'][i % 3 + 1] AS role, 1.0 / (i % 3 + 1) AS score, 'T01' AS class, 'xid.79' AS code, time_of(i) AS ts,
    text_of(i) AS why, source_of(i) AS source_id, i AS line FROM range({incidents * 3}) t(i);
INSERT INTO decisions SELECT incident_of(i), 'gpu.off_bus', 'isolate_now', 'confirmed', host_of(i), 'it is off the bus', 'x', '{{}}'
    FROM range({incidents}) t(i);
INSERT INTO spares SELECT incident_of(i), 1, host_of(i), 'idle since an hour' FROM range({incidents}) t(i);
INSERT INTO jobs BY NAME SELECT (100000 + i)::VARCHAR AS job_id, a AS attempt, 'pretrain-' || i % 50 AS name, 'user' || i % 40 AS user,
    'gpu' AS partition, pick(['COMPLETED', 'FAILED', 'NODE_FAIL', 'TIMEOUT'], i, a) AS state, 16 AS nodes, 128 AS gpus,
    time_of(i) + to_hours(a) AS start, time_of(i) + to_hours(a + 1) AS end, 20.0 AS gpu_hours_lost, 'start' AS basis,
    'accounting' AS known_from FROM range({jobs}) t(i), range(2) u(a);
INSERT INTO job_hosts SELECT job_id, attempt, format('gpu-{{:04d}}', (hash(job_id) % {HOSTS} + n) % {HOSTS}), start, "end"
    FROM jobs, range(16) t(n);
INSERT INTO ranks BY NAME SELECT job_id, attempt, 's0' AS source_id, n AS rank,
    format('gpu-{{:04d}}', (hash(job_id) % {HOSTS} + n // 8) % {HOSTS}) AS host
    FROM jobs, range(32) t(n);
INSERT INTO hosts BY NAME SELECT format('gpu-{{:04d}}', i) AS host, 8 AS gpus, 'H200' AS gpu_model, 'r' || i // 16 AS rack,
    'leaf' || i // 32 AS leaf, 'csv' AS topology_from FROM range({HOSTS}) t(i);
INSERT INTO host_states BY NAME SELECT format('gpu-{{:04d}}', i % {HOSTS}) AS host,
    pick(['drain', 'idle', 'allocated', 'down'], i, 's') AS state, time_of(i) AS start, time_of(i) + INTERVAL 2 HOUR AS end,
    'health check' AS reason FROM range({HOSTS * 10}) t(i);
INSERT INTO recurrence SELECT i + 1, format('gpu-{{:04d}}', i), 9.0 - i / 250, 0.3, 0.1, 0.5, i < 12, 3, 'drain at job end', '{{}}',
    ['3 strikes in 28 days', 'xid.79 twice'] FROM range({HOSTS}) t(i);
INSERT INTO sources BY NAME SELECT 's' || i AS source_id, '/var/log/collected/' || i || '.log' AS path, 100000 AS lines, 2500 AS events,
    0 AS rejects, TIMESTAMP '2026-01-01' AS first_ts, TIMESTAMP '2026-07-01' AS last_ts, 'exact' AS clock FROM range(4000) t(i);
"""


def fill(db: Path, events: int) -> None:
    """A database of so many events; its analysis is marked as fresh."""
    with Store(str(db)):
        pass
    with duckdb.connect(str(db)) as connection:
        connection.execute(MACROS)
        connection.execute(statements(events))
    with Store(str(db)) as store:
        store.set_meta("built", stamp_of(store, rulebook.load()))


PAGES = (
    "/",
    "/incidents",
    "/incidents?class=T01&host=gpu-0007",
    "/incidents/job-100500-0",
    "/reports/job-100500-0",
    "/hosts",
    "/hosts?rack=r7",
    "/hosts/gpu-0007",
    "/lemons",
    "/jobs",
    "/jobs?state=NODE_FAIL&host=gpu-0007",
    "/jobs/100500",
    "/bursts",
    "/bursts?after=2026-03-15T00:00:00Z~x",
    "/bursts?code=xid.79&host=gpu-0007",
    "/bursts/s5:5:0",
    "/codes",
    "/codes/xid.79",
    "/sources",
    "/search?q=gpu-00",
    "/search?q=1005",
    "/search?q=xid",
)


def timed(client: TestClient, page: str, times: int, pause: float = 0.0) -> tuple[float, float, str]:
    """Median and worst milliseconds of visits, and what came."""
    taken = []
    for _ in range(times):
        time.sleep(pause)
        began = time.perf_counter()
        answer = client.get(page)
        taken.append((time.perf_counter() - began) * 1000)
    return median(taken), max(taken), f"{len(answer.content):,}" if answer.is_success else f"status {answer.status_code}"


def measure(db: Path) -> None:
    """Each page: visits in a row, and visits after a pause in which the file was let go."""
    with TestClient(build(Site(str(db), rulebook.load())), base_url="http://localhost") as client:
        client.get("/")
        print(f"{'page':42} {'median ms':>10} {'worst ms':>9} {'cold ms':>9} {'bytes':>8}")
        medians, colds = [], []
        for page in PAGES:
            middle, worst, came = timed(client, page, REPEATS)
            cold, _, _ = timed(client, page, COLD, HOLD_S * 1.3)
            print(f"{page:42} {middle:10.1f} {worst:9.1f} {cold:9.1f} {came:>8}")
            medians.append(middle)
            colds.append(cold)
        print(f"median over pages {median(medians):.0f} ms, cold {median(colds):.0f} ms")
        print(f"slowest page {max(medians):.0f} ms, cold {max(colds):.0f} ms")


def main() -> None:
    """Fill, measure, remove."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--events", type=int, default=10_000_000)
    parser.add_argument("--db", type=Path)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        db = asked.db or Path(folder) / "bench.duckdb"
        if not db.exists():
            began = time.perf_counter()
            fill(db, asked.events)
            print(f"{asked.events:,} events made in {time.perf_counter() - began:.0f} s, {db.stat().st_size / 1e6:,.0f} MB")
        measure(db)


if __name__ == "__main__":
    main()
