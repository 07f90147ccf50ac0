"""A real Slurm of sixteen hosts on this machine: own database, own munge, own ports, nothing of the system's is touched."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

PACKAGES = ("slurm-wlm", "slurmdbd", "mariadb-server", "munge")
PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "mariadbd", "mariadb-install-db", "munged", "sacct", "sbatch")
HOSTS = tuple(f"tr-{n:03d}" for n in range(1, 17))
GPUS = 8
# Away from the defaults 3306, 6817 and 6819, so that a cluster that lives here is left alone.
DB_PORT, CTLD_PORT, DBD_PORT, NODE_PORT = 23306, 26817, 26819, 27000

SLURMDBD = """\
AuthType=auth/munge
AuthInfo=socket={top}/munge/socket
DbdHost=localhost
DbdPort={dbd}
SlurmUser=root
LogFile={top}/log/slurmdbd.log
PidFile={top}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={db}
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
"""

SLURM = """\
ClusterName=trial
SlurmctldHost=localhost
SlurmctldPort={ctld}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={top}/munge/socket
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=1
SlurmctldPidFile={top}/run/slurmctld.pid
SlurmdPidFile={top}/run/slurmd-%n.pid
SlurmdSpoolDir={top}/spool/%n
StateSaveLocation={top}/state
SlurmctldLogFile={top}/log/slurmctld.log
SlurmdLogFile={top}/log/slurmd-%n.log
SlurmdParameters=config_overrides
SlurmdTimeout=20
KillWait=5
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
AccountingStoragePort={dbd}
AccountingStoragePass={top}/munge/socket
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/none
JobRequeue=1
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=tr-[001-016] CPUs=64 RealMemory=500000 Gres=gpu:8 NodeHostName=localhost NodeAddr=127.0.0.1 Port=[{first}-{last}]
PartitionName=batch Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=urgent Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> list[str]:
    """Programs that are not installed."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def install() -> None:
    """Install the Debian packages where something is missing; raises RuntimeError when that cannot be done here."""
    if not missing():
        return
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise RuntimeError(f"not installed: {', '.join(missing())}; as root: apt-get install {' '.join(PACKAGES)}")
    quiet = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    for command in (["update"], ["install", "-y", "--no-install-recommends", *PACKAGES]):
        subprocess.run(["apt-get", "-qq", *command], env=quiet, check=True, stdout=subprocess.DEVNULL, timeout=300)


def until(ready: Callable[[], bool], seconds: float, what: str) -> None:
    """Wait for `ready`; raises TimeoutError that names `what`."""
    end = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not so after {seconds:.0f} s")
        time.sleep(0.3)


class Cluster:
    """The daemons of one cluster under the folder `top`, all run in the foreground as children of this process."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.env = dict(os.environ, TZ="UTC", SLURM_CONF=str(top / "etc" / "slurm.conf"), SLURM_TIME_FORMAT="standard")
        self.env["PATH"] = self.env.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
        self.running: dict[str, subprocess.Popen[bytes]] = {}

    def call(self, *command: str, check: bool = True) -> str:
        """The standard output of one command, run against this cluster."""
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=60)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def works(self, *command: str) -> bool:
        """Whether a command succeeds."""
        return subprocess.run(command, env=self.env, capture_output=True, timeout=60).returncode == 0

    def begin(self, name: str, *command: str) -> None:
        """Start one daemon under a name of ours."""
        with (self.top / "log" / f"{name}.out").open("ab") as out:
            self.running[name] = subprocess.Popen(command, env=self.env, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def kill(self, host: str) -> None:
        """Kill a host's slurmd as a crash would; what it had started lives on."""
        daemon = self.running.pop(host)
        daemon.send_signal(signal.SIGKILL)
        daemon.wait()

    def boot(self, host: str) -> None:
        """Start a host's slurmd."""
        (self.top / "spool" / host).mkdir(parents=True, exist_ok=True)
        self.begin(host, "slurmd", "-D", "-N", host)

    def write(self) -> None:
        """Lay the folders and the configuration."""
        for name in ("etc", "log", "run", "state", "spool", "munge", "sql", "dev", "out"):
            (self.top / name).mkdir(parents=True, exist_ok=True)
        (self.top / "munge").chmod(0o755)
        facts = {"top": self.top, "db": DB_PORT, "ctld": CTLD_PORT, "dbd": DBD_PORT, "first": NODE_PORT + 1, "last": NODE_PORT + len(HOSTS)}
        (self.top / "etc" / "slurm.conf").write_text(SLURM.format(**facts))
        (self.top / "etc" / "slurmdbd.conf").write_text(SLURMDBD.format(**facts))
        (self.top / "etc" / "slurmdbd.conf").chmod(0o600)
        devices = [self.top / "dev" / f"gpu{n}" for n in range(GPUS)]
        for device in devices:
            device.touch()
        (self.top / "etc" / "gres.conf").write_text("".join(f"Name=gpu File={device}\n" for device in devices))

    def begin_munge(self) -> None:
        folder = self.top / "munge"
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = [f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")]
        self.begin("munged", "munged", "--foreground", "--force", f"--socket={folder / 'socket'}", *files)
        until(lambda: (folder / "socket").exists(), 20, "munged listens")

    def begin_database(self) -> None:
        data, socket = self.top / "sql", self.top / "run" / "sql.socket"
        place = (f"--datadir={data}", "--user=root")
        self.call("mariadb-install-db", "--no-defaults", *place, "--auth-root-authentication-method=normal", "--skip-test-db")
        listen = (f"--socket={socket}", f"--port={DB_PORT}", "--bind-address=127.0.0.1", f"--pid-file={self.top / 'run' / 'sql.pid'}")
        self.begin("mariadbd", "mariadbd", "--no-defaults", *place, *listen)
        client = ("mariadb", "--no-defaults", "-u", "root", f"--socket={socket}", "-e")
        until(lambda: self.works(*client, "select 1"), 60, "the database answers")
        self.call(*client, "create database slurm_acct_db; grant all on slurm_acct_db.* to 'slurm'@'%' identified by 'slurm'")

    def start(self) -> None:
        """Bring everything up; sixteen idle hosts when it returns."""
        self.write()
        self.begin_munge()
        self.begin_database()
        self.begin("slurmdbd", "slurmdbd", "-D")
        until(lambda: self.works("sacctmgr", "-n", "list", "cluster"), 60, "slurmdbd answers")
        for words in (("cluster", "trial"), ("account", "lab"), ("user", "root", "account=lab")):
            self.call("sacctmgr", "-i", "add", *words, check=False)
        self.begin("slurmctld", "slurmctld", "-D", "-c")
        until(lambda: self.works("scontrol", "ping"), 30, "slurmctld answers")
        for host in HOSTS:
            self.boot(host)
        until(lambda: self.call("sinfo", "-hN", "-o", "%T", "-p", "batch").split() == ["idle"] * len(HOSTS), 60, "all hosts idle")

    def stop(self) -> None:
        """End all jobs and daemons, clients before servers."""
        if self.works("scontrol", "ping"):
            self.call("scancel", "-u", "root", check=False)
            time.sleep(2)
        for name in sorted(self.running, key=lambda n: (n in ("munged", "mariadbd", "slurmdbd"), n)):
            daemon = self.running[name]
            daemon.terminate()
            try:
                daemon.wait(timeout=20)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


@contextmanager
def cluster(top: Path) -> Iterator[Cluster]:
    """A running cluster under `top` (an absolute path, short enough for a socket's name)."""
    made = Cluster(top)
    try:
        made.start()
        yield made
    finally:
        made.stop()
