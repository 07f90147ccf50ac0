"""Dask workers: started here, on the user's own Slurm, or joined at an address; they survive the loss of some and of slow ones.

local[4]               four processes of this machine
slurm[16]              sixteen jobs of one worker each, as dask-jobqueue's configuration says (queue, account, memory ...)
tcp://head:8786        a scheduler that runs already; tls://... where it wants certificates
"""

from __future__ import annotations

import logging
import os
import queue
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from statistics import median
from typing import TYPE_CHECKING, Any

from triage.faults import Fault
from triage.worker import Done, Order, Task, read

if TYPE_CHECKING:
    from distributed import Client, Future

# local[4] | slurm | tcp://10.0.0.1:8786
_PLACE = re.compile(r"(local|slurm)(?:\[(\d{1,5})\])?|((?:tcp|tls|ucx|ws|wss)://\S{1,500})")
NEEDED = {"local": ("distributed", "fsspec", "cryptography"), "slurm": ("distributed", "fsspec", "cryptography", "dask_jobqueue")}
SLURM_JOBS, SLURM_MEMORY = 4, "2GiB"
LOOK, CONNECT, LONELY = 1.0, 15, 120.0
"""Seconds: between two looks at what is late; until a scheduler must answer; without any worker at an address."""
PATIENCE, LATE = 30.0, 4.0
"""A file is given to a second worker when it takes 30 s and 4 times what files of its size took, and workers are idle."""
AHEAD = 2
"""Tasks that wait at the scheduler for each thread."""
RETRIES = 2
PRIVATE = "127.0.0.1:0"
"""Where a scheduler's pages are, of which we offer none."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the workers are."""

    kind: str
    count: int = 0
    address: str = ""

    @property
    def shared(self) -> bool:
        """Whether they may be on other machines."""
        return self.kind != "local"


def place_of(text: str) -> Place:
    """`local[N]`, `slurm[N]` or an address; raises Fault for anything else and where the libraries are missing."""
    found = _PLACE.fullmatch(text)
    if not found or found[2] == "0":
        raise Fault(f"--dask {text}: give local[N], slurm[N] or the address of a scheduler such as tcp://head:8786")
    for name in NEEDED.get(found[1], ("distributed", "fsspec")):
        try:
            import_module(name)
        except ImportError as error:
            raise Fault(f"--dask needs {name}, which is not installed; install the extra: pip install 'gpu-triage[dask]'") from error
    if found[3]:
        return Place("address", address=found[3])
    default = SLURM_JOBS if found[1] == "slurm" else os.cpu_count() or 1
    return Place(found[1], int(found[2] or default))


@contextmanager
def assembled(place: Place, spool: str) -> Iterator[Crew]:
    """Workers, until the block ends."""
    import dask
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    quiet = {
        "distributed.nanny.pre-spawn-environ.POLARS_MAX_THREADS": 1,
        "distributed.nanny.pre-spawn-environ.PYTHONSAFEPATH": 1,  # no module out of a folder of logs
        "distributed.worker.multiprocessing-method": "spawn",
        "distributed.admin.tick.limit": "1h",
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with ExitStack() as open_:
        open_.enter_context(dask.config.set(quiet))
        cluster = _cluster(place, spool, open_)
        try:
            client = open_.enter_context(Client(cluster if cluster is not None else place.address, timeout=CONNECT, set_as_default=False))
        except (OSError, TimeoutError, ValueError, RuntimeError) as error:
            raise Fault(f"--dask {place.address or place.kind}: no scheduler answers: {_first_line(error)}") from error
        yield Crew(client, place)


def _cluster(place: Place, spool: str, open_: ExitStack) -> Any:
    """A cluster of our own, its connections encrypted: whoever reaches a scheduler can run programs as its user."""
    if place.kind == "address":
        return None
    from distributed import LocalCluster
    from distributed.security import Security

    if place.kind == "local":
        return open_.enter_context(
            LocalCluster(
                n_workers=place.count,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=PRIVATE,
                security=Security.temporary(),
                silence_logs=logging.CRITICAL,
            )
        )
    return open_.enter_context(_slurm(place, spool))


def _slurm(place: Place, spool: str) -> Any:
    """One worker a job; a job that ends early is queued again."""
    import dask
    from dask_jobqueue import SLURMCluster
    from distributed.security import Security

    stated = dask.config.get("jobqueue.slurm", {})
    wanted = {"cores": stated.get("cores") or 1, "processes": stated.get("processes") or 1, "memory": stated.get("memory") or SLURM_MEMORY}
    try:
        cluster = SLURMCluster(
            **wanted,
            security=Security.temporary(),
            shared_temp_directory=spool,
            scheduler_options={"dashboard_address": PRIVATE, **(stated.get("scheduler-options") or {})},
            job_script_prologue=["export POLARS_MAX_THREADS=1 PYTHONSAFEPATH=1", *(stated.get("job-script-prologue") or [])],
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise Fault(f"--dask slurm: {_first_line(error)}; see dask-jobqueue's configuration (jobqueue.yaml)") from error
    cluster.adapt(minimum_jobs=place.count, maximum_jobs=place.count)
    return cluster


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0]


@dataclass(slots=True)
class _Run:
    """A task at the scheduler, perhaps twice."""

    task: Task
    began: float
    futures: list[Future[Done]] = field(default_factory=list)


class Crew:
    """Runs tasks on the workers of one client."""

    def __init__(self, client: Client, place: Place) -> None:
        self._client, self._place = client, place
        self._ended: queue.Queue[tuple[int, Future[Done]]] = queue.Queue()
        self._running: dict[int, _Run] = {}
        self._paces: deque[float] = deque(maxlen=500)
        self._seen = time.monotonic()
        self.helped = 0

    def read(self, order: Order, tasks: Sequence[Task], singly: bool = False) -> Iterator[tuple[int, Done | Fault]]:
        """What each task gave, by its place, as they end; a Fault for one whose workers died.

        singly  one at a time: then nothing else can have killed the worker
        """
        waiting = deque(_in_turn(tasks, self._threads()))
        while waiting or self._running:
            threads = self._threads()
            while waiting and len(self._running) < (1 if singly else max(1, AHEAD * threads)):
                place = waiting.popleft()
                self._running[place] = _Run(tasks[place], time.monotonic())
                self._submit(order, place)
            for place, future in self._some():
                run = self._running.get(place)
                if run is not None and (done := self._outcome(run, future)) is not None:
                    del self._running[place]
                    yield place, done
            if not waiting:
                self._help(order, threads)

    def _threads(self) -> int:
        """Threads of all workers now; raises Fault when none is left for long."""
        threads: int = sum(self._client.nthreads().values())
        if threads or self._place.kind == "slurm":
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > LONELY:
            raise Fault(f"--dask {self._place.address or self._place.kind}: no worker for {LONELY:.0f} s; start some and run this again")
        return threads

    def _submit(self, order: Order, place: int, workers: Iterable[str] | None = None) -> None:
        run = self._running[place]
        future = self._client.submit(
            read, order, run.task, pure=False, retries=RETRIES, workers=list(workers) if workers is not None else None
        )
        run.futures.append(future)
        future.add_done_callback(lambda ended: self._ended.put((place, ended)))

    def _some(self) -> Iterator[tuple[int, Future[Done]]]:
        """What has ended, after at most a second."""
        try:
            yield self._ended.get(timeout=LOOK)
            while True:
                yield self._ended.get_nowait()
        except queue.Empty:
            return

    def _outcome(self, run: _Run, future: Future[Done]) -> Done | Fault | None:
        """The result, or why there is none; None while a twin still runs."""
        from distributed.scheduler import KilledWorker

        if future.status in ("cancelled", "lost"):
            raise Fault(f"--dask {self._place.address or self._place.kind}: the scheduler went away; run this again, it goes on from there")
        error = future.exception() if future.status == "error" else None
        if error is None:
            done: Done = future.result()
            self._paces.append(done.seconds / max(1, run.task.size))
            for twin in run.futures:
                if twin is not future:
                    twin.cancel()
            return done
        if any(not twin.done() for twin in run.futures):
            return None
        if isinstance(error, KilledWorker):
            return Fault("its workers died while they read it; give them more memory, or read it without --dask")
        raise _told(error)

    def _help(self, order: Order, threads: int) -> None:
        """Give what is late to a second worker, where some are idle; the first to end counts, for both write the same."""
        if not self._paces or len(self._running) >= threads:
            return
        now, pace = time.monotonic(), median(self._paces)
        for place, run in list(self._running.items()):
            late = now - run.began > max(PATIENCE, LATE * pace * run.task.size)
            if late and len(run.futures) == 1 and (idle := self._idle(run)):
                self._submit(order, place, idle)
                self.helped += 1

    def _idle(self, run: _Run) -> list[str]:
        """Workers that do nothing, and not this."""
        return [worker for worker, keys in self._client.processing().items() if not keys]


def _told(error: BaseException) -> BaseException:
    """A worker's exception as the user reads it."""
    if isinstance(error, ModuleNotFoundError):
        return Fault(f"a worker lacks the module {error.name}; install gpu-triage[dask], the same version, on all workers")
    return error


def _in_turn(tasks: Sequence[Task], threads: int) -> list[int]:
    """Large files first, that none of them is the last to begin; the rest in their order, so that storing keeps up."""
    large = sum(t.size for t in tasks) / (4 * max(1, threads))
    return sorted(range(len(tasks)), key=lambda n: (-tasks[n].size if tasks[n].size > large else 0, n))
