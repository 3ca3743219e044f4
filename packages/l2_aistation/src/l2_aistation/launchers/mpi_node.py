"""`python -m l2_aistation.launchers.mpi_node PROCESSES -- PROGRAM…`: a node's part of an MPI job.

On the gang's first node it runs mpirun over the gang's hostfile; elsewhere it waits for the command
line that mpirun wants run there, and for the job's end.  As `… mpi_node --agent HOST COMMAND…` it is
mpirun's remote shell.  All of them meet in `<shared>/.aistation/<job>/<attempt>/mpi`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from l2_aistation._kit.files import atomic_write
from l2_aistation.supervisor.warm import interpreter

_LOOK_S = 0.05
_AGENT = f"{sys.executable} -P -m l2_aistation.launchers.mpi_node --agent"


def main(arguments: list[str]) -> int:
    """Exit code: mpirun's on the first node, 0 on the others where it ended."""
    folder = _folder()
    if arguments[:1] == ["--agent"]:
        return agent(folder, arguments[1:])
    rank = int(os.environ["RANK"])
    if rank == 0:
        return first(folder, int(arguments[0]), arguments[2:])
    return wait(folder, rank)


def _folder() -> Path:
    """Where the job's nodes meet; each attempt anew."""
    shared = Path(os.environ["OGAI_SHARED_DIR"])
    return shared / ".aistation" / os.environ["OGAI_JOB"] / os.environ["OGAI_ATTEMPT"] / "mpi"


def first(folder: Path, processes: int, program: list[str]) -> int:
    """Runs mpirun; the other nodes are named by their numbers in the gang, so no names are resolved."""
    own = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    mpirun = shutil.which("mpirun", path=own)
    if mpirun is None:
        print("error: mpirun is not on this node's PATH\n  try: install Open MPI", file=sys.stderr)
        return 127
    nodes = int(os.environ["WORLD_SIZE"])
    hosts = ["localhost", *(f"node-{number}" for number in range(1, nodes))]
    hostfile = folder / "hostfile"
    atomic_write(hostfile, "".join(f"{host} slots={processes}\n" for host in hosts))
    environment = {
        **os.environ,
        "PATH": own,
        "OMPI_MCA_plm_rsh_agent": _AGENT,  # Open MPI 4
        "PRTE_MCA_plm_ssh_agent": _AGENT,  # Open MPI 5
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    words = [mpirun, "--hostfile", str(hostfile), "-np", str(nodes * processes)]
    words += ["--map-by", "slot:oversubscribe", "--bind-to", "none", interpreter(program[0]), *program[1:]]
    code = subprocess.run(words, env=environment, check=False).returncode
    atomic_write(folder / "over", str(code))
    return code


def agent(folder: Path, words: list[str]) -> int:
    """mpirun's remote shell: leaves the command at its node and waits until it was taken and ended."""
    place = next(number for number, word in enumerate(words) if word.startswith("node-"))
    host, command = words[place], words[place + 1 :]
    atomic_write(folder / f"{host}.command", " ".join(command))
    while not (folder / f"{host}.ended").exists() and not (folder / "over").exists():
        time.sleep(_LOOK_S)
    ended = folder / f"{host}.ended"
    return int(ended.read_text()) if ended.exists() else 0


def wait(folder: Path, rank: int) -> int:
    """Runs what mpirun wants run here, then waits for the end of all: daemons may go on behind it."""
    order = folder / f"node-{rank}.command"
    while not order.exists():
        if (folder / "over").exists():
            return 0
        time.sleep(_LOOK_S)
    code = subprocess.run(["sh", "-c", order.read_text()], check=False).returncode
    atomic_write(folder / f"node-{rank}.ended", str(code))
    while code == 0 and not (folder / "over").exists():
        time.sleep(_LOOK_S)
    return 0 if (folder / "over").exists() else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
