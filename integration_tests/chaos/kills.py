"""Kills one process of a running demo, of a given kind, and looks at what is left afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import re
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from l0_infra_os.api import Lab

PR_SET_CHILD_SUBREAPER = 36
DEMO_LIMIT_S = 800.0
POLL_S = 0.1


@dataclass(frozen=True)
class Kind:
    """A kind of process: its command line, and the words of the demo after which one is killed."""

    name: str
    command: str
    after: str
    most_wait_s: float = 4.0
    needs_root: bool = False


#: In the order of the flow: the run after a killed one passes the place where that one was killed.
KINDS = (
    Kind("lab keeper with its BMCs", r"l0_infra_os\.lab\.keeper", "leased 4 nodes", 1.0),
    Kind("machine", r"systemd-nspawn .*--machine=", "active, 10", 2.0, needs_root=True),
    Kind("demo with L0's image service", r"integration_tests\.demo", "enrolled 5", 2.0),
    Kind("ansible-playbook", r"ansible-playbook", "differences", needs_root=True),
    Kind("podsys' ansible worker", r"l1_podsys\.backends\.ansible\.worker", "differences", needs_root=True),
    Kind("data worker", r"l3_ylink\.datakit\.worker", "L3: gather", 2.0),
    Kind("aistation serve", r"l2_aistation serve", "L2 + L3: pretraining", 15.0),
    Kind("broker", r"(redis|valkey)-server", "L2 + L3: pretraining", 15.0, needs_root=True),
    Kind("agent", r"l2_aistation agent", "L2 + L3: pretraining", 15.0, needs_root=True),
    Kind("supervisor", r"l2_aistation\.supervisor", "L2 + L3: pretraining", 15.0),
    Kind("rank", r"supervisor/forkserver\.py|l3_ylink\.trainkit", "L2 + L3: pretraining", 15.0),
    Kind("evaluating runtime", r"l4_mmodel\.serving\.runtimes", "L4: register", 10.0),
    Kind("mmodel serve", r"l4_mmodel\.cli serve", "promotion by", 10.0),
)


@dataclass(frozen=True)
class KilledRun:
    """A run of the demo of which one process was killed: what it said, how it ended, what is left."""

    kind: Kind
    victim: str
    output: str
    code: int
    left: list[str]


def kinds_to_kill(*, soak: bool, seed: int, machines: str) -> list[Kind]:
    """Every kind that a demo with such machines has, or the one of them that the seed names."""
    kinds = [kind for kind in KINDS if machines == "nspawn" or not kind.needs_root]
    return kinds if soak else [random.Random(seed).choice(kinds)]


def run_and_kill(command: list[str], folder: Path, kind: Kind, log: Path, seed: int) -> KilledRun:
    """Runs the demo that works in `folder`, kills one process of this kind, and waits for its end."""
    adopt_orphans()
    before = descendants()
    with open(log, "wb") as output:
        demo = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        victim = _kill(demo, kind, log, random.Random(f"{seed} {kind.name}"))
        code = demo.wait(DEMO_LIMIT_S)
    finally:
        demo.kill()
        demo.wait()
        reap_orphans(before)
    return KilledRun(kind, victim, log.read_text(errors="replace"), code, what_is_left(folder, before))


def _kill(demo: subprocess.Popen[bytes], kind: Kind, log: Path, chance: random.Random) -> str:
    """Waits for the words, then for a process, then a moment; kills it and returns its command line."""
    pause = chance.uniform(0, kind.most_wait_s)
    wanted = re.compile(kind.command)
    while demo.poll() is None:
        if kind.after in log.read_text(errors="replace"):
            time.sleep(pause)
            pause = 0.0
            tree = {pid: line for pid in descendants(demo.pid) | {demo.pid} if (line := command_line(pid))}
            if found := sorted(pid for pid, line in tree.items() if wanted.search(line)):
                victim = chance.choice(found)
                os.kill(victim, signal.SIGKILL)
                return tree[victim]
        time.sleep(POLL_S)
    return ""


def adopt_orphans() -> None:
    """Makes this process the parent of orphans below it (prctl(2)), so that none can be overlooked."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)


def reap_orphans(known: set[int]) -> None:
    """Waits for dead children that nobody else will wait for."""
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
            if state == "Z" and int(parent) == os.getpid() and int(path.parent.name) not in known:
                os.waitpid(int(path.parent.name), os.WNOHANG)


def descendants(root: int | None = None) -> set[int]:
    """The living processes below one, or below this one."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = path.read_text().rpartition(")")[2].split()[:2]
        except OSError:
            continue
        if state != "Z":
            children.setdefault(int(parent), []).append(int(path.parent.name))
    found: set[int] = set()
    front = [root or os.getpid()]
    while front:
        front = [child for parent in front for child in children.get(parent, ())]
        found |= set(front)
    return found


def command_line(pid: int) -> str:
    """A process's command line, empty when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def traces_of_lab(folder: Path) -> list[str]:
    """What the lab of a demo in this folder has on the machine: namespaces, interfaces, groups, mounts."""
    identity = Lab(folder / "home" / "l0" / "lab").id
    places = (Path("/run/netns"), Path("/sys/class/net"), Path("/sys/fs/cgroup"))
    mine = [path for place in places if place.is_dir() for path in place.glob(f"ogai*{identity}*")]
    mine += Path("/sys/fs/cgroup").glob(f"*/ogai*{identity}*")
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    return [*map(str, mine), *(line for line in mounts if f"{folder}/" in line or identity in line)]


def what_is_left(folder: Path, before: set[int], patience_s: float = 20) -> list[str]:
    """Processes below this one that were not there before, and the lab's traces, if they do not go away."""
    limit = time.monotonic() + patience_s
    while True:
        living = [f"{pid} {line[:200]}" for pid in descendants() - before if (line := command_line(pid))]
        left = [*living, *traces_of_lab(folder)]
        if not left or time.monotonic() > limit:
            return left
        time.sleep(0.5)
