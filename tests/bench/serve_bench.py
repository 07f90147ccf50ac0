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
from triage.store import Store

HOSTS, REPEATS = 2000, 15
CODES = "['xid.79', 'xid.94', 'xid.13', 'xid.31', 'xid.63', 'nccl.timeout', 'ib.link_down', 'host.mce', 'torch.rank_exit', 'slurm.node_fail']"
ROLES = "['root', 'root', 'symptom', 'symptom', 'precursor', 'symptom', 'root', 'root', 'outcome', 'outcome']"
HOST = f"format('gpu-{{:04d}}', hash({{0}}, 'h') % {HOSTS})"
DEVICE = "format('0000:{:02x}:00', (hash({0}, 'd') % 8)::INT * 16 + 11)"
WHEN = "TIMESTAMP '2026-01-01' + to_microseconds((hash({0}, 't') % 15552000000000)::BIGINT)"
TEXT = "'NVRM: Xid (PCI:0000:3b:00): 79, pid=' || (hash({0}, 'p') % 90000) || ', GPU has fallen off the bus.'"


def _by(expression: str, key: str) -> str:
    return expression.replace("{0}", key)


def statements(events: int) -> list[str]:
    """What fills the tables, each made of ranges and hashes, so that every run makes the same rows."""
    bursts, incidents, jobs = events // 50, events // 2000, max(10, events // 500)
    host, device, when, text = (_by(part, "i") for part in (HOST, DEVICE, WHEN, TEXT))
    return [
        f"INSERT INTO events BY NAME SELECT 's' || (i % 4000) || ':' || i || ':0' AS event_id, 's' || (i % 4000) AS source_id, i AS line_first, "
        f"i AS line_last, {when} AS ts, {when} AS ts_last, {when} AS ts_near, 'exact' AS ts_quality, {host} AS host, 'line' AS host_from, "
        f"{device} AS device, 'gpu' AS family, {CODES}[1 + (hash(i, 'c') % 10)::INT] AS code, {text} AS message, 1 AS repeats FROM range({events}) t(i)",
        f"INSERT INTO bursts BY NAME SELECT 's' || (i % 4000) || ':' || i || ':0' AS burst_id, {host} AS host, {device} AS device, "
        f"{CODES}[1 + (hash(i, 'c') % 10)::INT] AS code, 'gpu' AS family, 'T01' AS class, {ROLES}[1 + (hash(i, 'c') % 10)::INT] AS role, 'gpu' AS layer, "
        f"{when} AS first, {when} + INTERVAL 3 SECOND AS last, true AS timed, hash(i, 'n') % 90 + 1 AS count, 3 AS events, "
        f"(100000 + hash(i, 'j') % {jobs})::VARCHAR AS job_id, 0 AS attempt, {text} AS message, 's' || (i % 4000) AS source_id, i AS line, 1 AS copies "
        f"FROM range({bursts}) t(i)",
        f"INSERT INTO incidents BY NAME SELECT 'job-' || (100000 + i) || '-0' AS incident_id, 'job' AS kind, {when} AS start, "
        f"{when} + INTERVAL 1 HOUR AS end, (100000 + i)::VARCHAR AS job_id, 0 AS attempt, 'T01' AS class, 1 AS symptom, 'fail_stop' AS manifestation, "
        f"'gpu' AS layer, 'isolate_now' AS action, 'confirmed' AS confidence, 'gpu.off_bus' AS rule_id, 'a GPU of ' || {host} || ' fell off the bus' "
        f"AS summary, list_value({host}) AS hosts, list_value((100000 + i)::VARCHAR) AS jobs, (hash(i, 'g') % 9000) / 10 AS gpu_hours_lost "
        f"FROM range({incidents}) t(i)",
        f"INSERT INTO incident_bursts SELECT 'job-' || (100000 + i % {incidents}) || '-0', 's' || (i % 4000) || ':' || i || ':0', "
        f"{ROLES}[1 + (hash(i, 'c') % 10)::INT] FROM range({bursts // 2}) t(i)",
        f"INSERT INTO findings BY NAME SELECT 'job-' || (100000 + i // 3) || '-0' AS incident_id, i % 3 + 1 AS place, {host} AS host, {device} AS device, "
        f"['culprit', 'suspect', 'victim'][i % 3 + 1] AS role, 1.0 / (i % 3 + 1) AS score, 'T01' AS class, 'xid.79' AS code, {when} AS ts, {text} AS why, "
        f"'s' || (i % 4000) AS source_id, i AS line FROM range({incidents * 3}) t(i)",
        f"INSERT INTO decisions SELECT 'job-' || (100000 + i) || '-0', 'gpu.off_bus', 'isolate_now', 'confirmed', {host}, 'it is off the bus', 'x', '{{}}' "
        f"FROM range({incidents}) t(i)",
        f"INSERT INTO spares SELECT 'job-' || (100000 + i) || '-0', 1, {host}, 'idle since an hour' FROM range({incidents}) t(i)",
        f"INSERT INTO jobs BY NAME SELECT (100000 + i)::VARCHAR AS job_id, a AS attempt, 'pretrain-' || i % 50 AS name, 'user' || i % 40 AS user, "
        f"'gpu' AS partition, ['COMPLETED', 'FAILED', 'NODE_FAIL', 'TIMEOUT'][1 + (hash(i, a) % 4)::INT] AS state, 16 AS nodes, 128 AS gpus, "
        f"{when} + to_hours(a) AS start, {when} + to_hours(a + 1) AS end, 20.0 AS gpu_hours_lost, 'start' AS basis, "
        f"'accounting' AS known_from FROM range({jobs}) t(i), range(2) u(a)",
        f"INSERT INTO job_hosts SELECT job_id, attempt, format('gpu-{{:04d}}', (hash(job_id) % {HOSTS} + n) % {HOSTS}), start, \"end\" FROM jobs, range(16) t(n)",
        f"INSERT INTO hosts BY NAME SELECT format('gpu-{{:04d}}', i) AS host, 8 AS gpus, 'H200' AS gpu_model, 'r' || i // 16 AS rack, 'leaf' || i // 32 AS leaf, "
        f"'csv' AS topology_from FROM range({HOSTS}) t(i)",
        f"INSERT INTO host_states BY NAME SELECT format('gpu-{{:04d}}', i % {HOSTS}) AS host, ['drain', 'idle', 'allocated', 'down'][1 + (hash(i, 's') % 4)::INT] AS state, "
        f"{when} AS start, {when} + INTERVAL 2 HOUR AS end, 'health check' AS reason FROM range({HOSTS * 10}) t(i)",
        f"INSERT INTO recurrence SELECT i + 1, format('gpu-{{:04d}}', i), 9.0 - i / 250, 0.3, 0.1, 0.5, i < 12, 3, 'drain at job end', '{{}}', "
        f"list_value('3 strikes in 28 days', 'xid.79 twice') FROM range({HOSTS}) t(i)",
        "INSERT INTO sources BY NAME SELECT 's' || i AS source_id, '/var/log/collected/' || i || '.log' AS path, 100000 AS lines, 2500 AS events, "
        "0 AS rejects, TIMESTAMP '2026-01-01' AS first_ts, TIMESTAMP '2026-07-01' AS last_ts, 'exact' AS clock FROM range(4000) t(i)",
    ]  # fmt: skip


def fill(db: Path, events: int) -> None:
    """A database of so many events; its analysis is marked as fresh."""
    with Store(str(db)):
        pass
    with duckdb.connect(str(db)) as connection:
        for statement in statements(events):
            connection.execute(statement)
    with Store(str(db)) as store:
        store.set_meta("built", stamp_of(store, rulebook.load()))


PAGES = (
    "/", "/incidents", "/incidents?class=T01&host=gpu-0007", "/incidents/job-100500-0", "/hosts", "/hosts?rack=r7", "/hosts/gpu-0007", "/lemons",
    "/jobs", "/jobs?state=NODE_FAIL&host=gpu-0007", "/jobs/100500", "/bursts", "/bursts?code=xid.79&host=gpu-0007", "/bursts/s5:5:0", "/codes/xid.79",
    "/sources", "/search?q=gpu-00", "/search?q=1005", "/search?q=xid",
)  # fmt: skip


def measure(db: Path) -> None:
    """The median of each page, its size, and of a page in the middle of the longest list."""
    with TestClient(build(Site(str(db), rulebook.load())), base_url="http://localhost", raise_server_exceptions=False) as client:
        deep = client.get("/bursts?after=2026-03-15T00:00:00Z~x").url
        print(f"{'page':48} {'median ms':>10} {'worst ms':>9} {'bytes':>8}")
        medians = []
        for page in (*PAGES, str(deep).removeprefix("http://localhost")):
            times = []
            for _ in range(REPEATS):
                began = time.perf_counter()
                answer = client.get(page)
                times.append((time.perf_counter() - began) * 1000)
            medians.append(median(times))
            print(f"{page:48} {median(times):10.1f} {max(times):9.1f} {len(answer.content):8} {'' if answer.is_success else answer.status_code}")
        print(f"median over pages {median(medians):.1f} ms, slowest page {max(medians):.1f} ms")


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
