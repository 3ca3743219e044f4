"""The same bytes from every engine, also when a worker is killed in the middle: Slurm, Ray, jobs."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import random
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from l3_ylink._kit.problems import Unavailable
from l3_ylink.backends.local import LocalRunner
from l3_ylink.datakit.engines import Engine, make_engine
from l3_ylink.datakit.recipe import Recipe, parse_recipe
from l3_ylink.datakit.run import DataRun, run_recipe

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

SOAK = os.environ.get("OGAI_SOAK") == "1"
SEED = int(os.environ.get("OGAI_SEED", "20261130"))
WORKERS = 2
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "scancel", "sinfo")
SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
SENTENCE = (
    "the cluster has many nodes and each of them runs an agent that tells the server how the work goes "
    "while people look at the page to see which job waits for a place and which one has lost its node"
)
WORDS = SENTENCE.split()
STEPS = ["extract", "clean", "language", "quality", "personal", "exact", "near"]


def recipe() -> Recipe:
    steps = [*({"step": name} for name in STEPS), {"step": "tokenise", "vocabulary": 400}]
    return parse_recipe({"name": "t", "sources": [{"name": "all", "licence": "CC0-1.0"}], "steps": steps})


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("engines") / "in"
    folder.mkdir()
    for number in range(40):
        rng = random.Random(SEED + number % 37)  # the last three are copies
        lines = [
            " ".join(rng.choice(WORDS) for _ in range(rng.randrange(8, 16))).capitalize() + "."
            for _ in range(30)
        ]
        (folder / f"page-{number:02d}.txt").write_text("\n".join(lines) + "\n")
    return folder


def run(corpus: Path, out: Path, engine: Engine | None = None) -> DataRun:
    return run_recipe(
        recipe(), input_folder=corpus, out=out, block_bytes=8_000, workers=WORKERS, engine=engine
    )


def bytes_of(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in (".lock", ".costs.jsonl")
    }


@pytest.fixture(scope="module")
def reference(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return bytes_of(run(corpus, tmp_path_factory.mktemp("local") / "out").folder)


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A Slurm of one node on this machine: munged, slurmctld, slurmd."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=SBIN) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(f"needs root and {', '.join(missing or PROGRAMS)}")
    folder = tmp_path_factory.mktemp("slurm")
    with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", SBIN)
        patch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
        configure(folder)
        files = {"key-file": "munge.key", "socket": "munge.sock", "pid-file": "pid", "log-file": "log"}
        options = [f"--{name}={folder / file}" for name, file in files.items()]
        for words in (
            ("munged", "-F", "-f", f"--seed-file={folder / 'seed'}", *options),
            ("slurmctld", "-D"),
            ("slurmd", "-D", "-N", "n1"),
        ):
            with open(folder / "output", "ab") as output:
                process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
            stack.callback(process.wait)
            stack.callback(process.terminate)
            until = time.monotonic() + 10
            while words[0] == "munged" and not (folder / "munge.sock").exists() and time.monotonic() < until:
                time.sleep(0.05)
        until = time.monotonic() + 30
        while "idle" not in asked("sinfo", "-h", "-o", "%T"):
            if time.monotonic() > until:
                pytest.skip(f"slurm does not start here: {(folder / 'output').read_text()[-500:]}")
            time.sleep(0.2)
        stack.callback(asked, "scancel", "--state=RUNNING", "--signal=KILL", "--full")
        yield


def asked(*words: str) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=30).stdout


def configure(folder: Path) -> None:
    (folder / "munge.key").write_bytes(secrets.token_bytes(128))
    (folder / "munge.key").chmod(0o400)
    host = socket.gethostname().partition(".")[0]
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
    control, node = (probe.getsockname()[1] for probe in probes)
    for probe in probes:
        probe.close()
    (folder / "state").mkdir()
    (folder / "spool").mkdir()
    lines = [
        "ClusterName=test",
        f"SlurmctldHost={host}(127.0.0.1)",
        f"SlurmctldPort={control}",
        "SlurmUser=root",
        "AuthType=auth/munge",
        f"AuthInfo=socket={folder}/munge.sock",
        "CredType=cred/munge",
        f"StateSaveLocation={folder}/state",
        f"SlurmctldPidFile={folder}/slurmctld.pid",
        f"SlurmdPidFile={folder}/slurmd.pid",
        f"SlurmctldLogFile={folder}/slurmctld.log",
        f"SlurmdLogFile={folder}/slurmd.log",
        f"SlurmdSpoolDir={folder}/spool",
        "SlurmdParameters=config_overrides",
        "ProctrackType=proctrack/linuxproc",
        "TaskPlugin=task/none",
        "MpiDefault=none",
        "JobAcctGatherType=jobacct_gather/none",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core",
        "SchedulerParameters=sched_min_interval=0",
        "KillWait=2",
        "ReturnToService=2",
        f"NodeName=n1 NodeAddr=127.0.0.1 NodeHostname={host} Port={node} CPUs=4 RealMemory=4000",
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP",
    ]
    (folder / "slurm.conf").write_text("\n".join(lines) + "\n")


@pytest.fixture(params=["jobs", "ray", "slurm"])
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    name = str(request.param)
    if name == "ray" and importlib.util.find_spec("ray") is None:
        pytest.skip("needs ray (pip install 'l3-ylink[ray]')")
    if name == "slurm":
        request.getfixturevalue("slurm")
    made = make_engine(name, runner=lambda: LocalRunner(tmp_path / "logs"))
    assert made is not None
    yield made
    made.close()


def killer(out: Path, mark: bytes, killed: list[int], stop: threading.Event) -> None:
    """kill -9 of the first worker of this run that is seen after a block was committed."""
    while not stop.is_set():
        committed = list((out / "signals").glob("block-*.json"))
        for folder in Path("/proc").glob("[0-9]*") if committed else ():
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes()
                if mark in words and int(folder.name) != os.getpid():
                    os.kill(int(folder.name), signal.SIGKILL)
                    killed.append(int(folder.name))
                    return
        time.sleep(0.01)


# ray leaves the files and sockets of its own processes to the garbage collector
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_an_engine_gives_the_same_bytes_though_a_worker_is_killed(
    engine: Engine, corpus: Path, reference: dict[str, str], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    mark = b"ray::_do" if type(engine).__name__ == "RayEngine" else str(out).encode()
    killed: list[int] = []
    stop = threading.Event()
    thread = threading.Thread(target=killer, args=(out, mark, killed, stop))
    thread.start()
    try:
        run(corpus, out, engine)
    except Unavailable as error:  # Ray gives its own processes 15 s to start, whatever the load
        pytest.skip(f"{error.what}: {str(error.why)[:200]}")
    finally:
        stop.set()
        thread.join()
    assert killed
    assert bytes_of(out) == reference
    again = run(corpus, out, engine)  # nothing is left to measure
    assert again.reused == again.blocks
