"""Time from a fault to the moment when every rank is past its first new step, beside torchrun.

Both run the same program in the same minutes, 4 gloo ranks on this machine, a checkpoint every 10
steps.  torchrun gets TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1: with its default restarted gloo ranks
never find each other.  OGAI_SOAK=1 repeats more often and adds the stopped rank and the lost node.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from l2_aistation.loopback import LoopbackCluster
from l2_aistation.supervisor import processes

PROGRAM = Path(__file__).with_name("training_for_healing.py")
SOAK = os.environ.get("OGAI_SOAK") == "1"
RANKS = 4
FAULT_AT = 13
LAST = 100_000
PATIENCE_S = 240.0


class Steps:
    """What the ranks wrote: who did which step when."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def rows(self) -> list[tuple[int, int, int, float]]:
        if not self.path.exists():
            return []
        fields = (line.split() for line in self.path.read_text().splitlines())
        return [(int(rank), int(pid), int(step), float(at)) for rank, pid, step, at in fields]

    def wait_for(self, condition: Callable[[list[tuple[int, int, int, float]]], Any]) -> Any:
        until = time.monotonic() + PATIENCE_S
        while not (value := condition(self.rows())):
            if time.monotonic() > until:
                raise TimeoutError("the ranks made no progress")
            time.sleep(0.05)
        return value

    def pids_at(self, step: int) -> dict[int, int]:
        """The processes of the ranks once every one of them has done `step`."""

        def reached(rows: list[tuple[int, int, int, float]]) -> dict[int, int] | None:
            pids = {rank: pid for rank, pid, done, _at in rows if done >= step}
            return pids if len(pids) == RANKS else None

        found: dict[int, int] = self.wait_for(reached)
        return found

    def back_at(self, old: set[int]) -> float:
        """When the last rank had done the first step in a process that is not of `old`."""

        def reached(rows: list[tuple[int, int, int, float]]) -> float | None:
            first: dict[int, float] = {}
            for rank, pid, _step, at in rows:
                if pid not in old:
                    first.setdefault(rank, at)
            return max(first.values()) if len(first) == RANKS else None

        moment: float = self.wait_for(reached)
        return moment


def environment(folder: Path, **more: str) -> dict[str, str]:
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    paths = {"BENCH_CHECKPOINTS": str(folder / "checkpoints"), "BENCH_STEPS": str(folder / "steps")}
    return {**paths, "BENCH_LAST": str(LAST), "OMP_NUM_THREADS": "1", **more}


def ours(fault: signal.Signals) -> float:
    with tempfile.TemporaryDirectory() as name, LoopbackCluster(Path(name), nodes=1, spares=0) as cluster:
        steps = Steps(Path(name) / "steps")
        submit(cluster, environment(Path(name)), one_per_node=False)
        pids = steps.pids_at(FAULT_AT)
        at = time.time()
        os.kill(pids[2], fault)
        return steps.back_at(set(pids.values())) - at


def submit(cluster: LoopbackCluster, variables: dict[str, str], *, one_per_node: bool) -> str:
    task = {
        "count": RANKS,
        "command": ["python", str(PROGRAM)],
        "environment": {**variables, "OGAI_PREIMPORT": "torch,torch._dynamo"},
        "one_per_node": one_per_node,
    }
    producer = {"name": "bench", "version": "0"}
    return str(cluster.client.submit({"name": "bench", "producer": producer, "tasks": [task]})["id"])


def ours_node_lost() -> float:
    with tempfile.TemporaryDirectory() as name, LoopbackCluster(Path(name), nodes=4, spares=1) as cluster:
        steps = Steps(Path(name) / "steps")
        job = submit(cluster, environment(Path(name)), one_per_node=True)
        pids = steps.pids_at(FAULT_AT + 40)  # the spare has had time to get warm
        placement = cluster.client.job(job)["attempts"][0]["placement"]
        at = time.time()
        cluster.kill_node(next(place["node"] for place in placement if place["rank"] == 2))
        return steps.back_at(set(pids.values())) - at


def torchrun(arguments: list[str], variables: dict[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "torch.distributed.run", *arguments, str(PROGRAM)],
        env={
            **os.environ,
            **variables,
            "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
            "GLOO_SOCKET_IFNAME": "lo",
        },
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def end(*agents: subprocess.Popen[bytes]) -> None:
    for agent in agents:
        processes.kill_all([agent.pid, *processes.descendants(agent.pid)])
        agent.wait()


def theirs(fault: signal.Signals) -> float:
    with tempfile.TemporaryDirectory() as name:
        steps = Steps(Path(name) / "steps")
        options = [
            f"--nproc-per-node={RANKS}",
            "--max-restarts=5",
            "--rdzv-backend=c10d",
            "--rdzv-endpoint=127.0.0.1:0",
        ]
        agent = torchrun(
            options, environment(Path(name), BENCH_TIMEOUT_S="10" if fault is signal.SIGSTOP else "60")
        )
        try:
            pids = steps.pids_at(FAULT_AT)
            at = time.time()
            os.kill(pids[2], fault)
            return steps.back_at(set(pids.values())) - at
        finally:
            end(agent)


def theirs_node_lost() -> float:
    """Two agents with two ranks; one vanishes with its ranks, a third agent comes two seconds later."""
    with tempfile.TemporaryDirectory() as name:
        steps = Steps(Path(name) / "steps")
        options = ["--nnodes=2", "--nproc-per-node=2", "--max-restarts=5", "--rdzv-backend=c10d"]
        options += ["--rdzv-endpoint=127.0.0.1:29477", "--local-addr=127.0.0.1", "--rdzv-id=bench"]
        variables = environment(Path(name))
        agents = [torchrun(options, variables)]
        time.sleep(3)  # the first one hosts the store and stays
        agents.append(torchrun(options, variables))
        try:
            pids = steps.pids_at(FAULT_AT)
            at = time.time()
            end(agents.pop())
            time.sleep(2)
            agents.append(torchrun(options, variables))
            return steps.back_at(set(pids.values())) - at
        finally:
            end(*agents)


def row(name: str, mine: list[float], peer: list[float], bar: float, how: str) -> dict[str, Any]:
    import torch

    own, other = statistics.median(mine), statistics.median(peer)
    return {
        "layer": "l2",
        "name": name,
        "ours": round(own, 2),
        "peer": round(other, 2),
        "peer_version": f"torchrun {torch.__version__}",
        "ratio": round(other / own, 1),
        "unit": "s",
        "how": f"median of {len(mine)} and {len(peer)}; {how}",
        "bar": f"<= 1/{bar:g} of torchrun",
        "ok": own * bar <= other,
    }


def main() -> None:
    times = 5 if SOAK else 2
    rows = [
        row(
            "kill -9 one of 4 ranks -> all past the first new step",
            [ours(signal.SIGKILL) for _ in range(times)],
            [theirs(signal.SIGKILL) for _ in range(times)],
            5,
            "4 gloo ranks on one node; ours through platform, broker, agent and supervisor",
        )
    ]
    if SOAK:
        rows.append(
            row(
                "SIGSTOP one of 4 ranks -> all past the first new step",
                [ours(signal.SIGSTOP) for _ in range(3)],
                [theirs(signal.SIGSTOP)],
                6,
                "torchrun's process group times out after 10 s",
            )
        )
        rows.append(
            row(
                "a node vanishes, a spare joins -> all past the first new step",
                [ours_node_lost() for _ in range(3)],
                [theirs_node_lost()],
                5,
                "ours 4 nodes and a spare, lost after 2.5 s; torchrun 2 agents, a third after 2 s",
            )
        )
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
