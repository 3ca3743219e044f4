"""`Lab`: a server room on one machine, brought up and taken down as a whole."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from l0_infra_os._kit import problems
from l0_infra_os._kit.files import atomic_write, locked
from l0_infra_os._kit.problems import BadInput, Conflict, Failed, Problem, Unavailable

from . import network
from .cleaning import is_alive, known_ids, sweep
from .folder import REGISTER_VARIABLE, Entry, LabFolder, Process, make_register, read_entry, register_folder
from .host import bmc_ports, hardware, prepare, require_programs
from .plan import KINDS, Kind, Mount, Plan, lab_id, make_plan

if TYPE_CHECKING:
    from l0_infra_os.ports import Fabric

START_PATIENCE_S = 60.0
STOP_PATIENCE_S = 40.0
Say = Callable[[str], None]


def say_on_stderr(text: str) -> None:
    """The default of `say`: one line for people."""
    print(f"lab: {text}", file=sys.stderr, flush=True)


class Lab:
    """The lab whose state is in `folder`; any process that names the folder speaks to the same lab.

    Its machines keep their disks and identities until `down`.
    """

    def __init__(self, folder: Path | str) -> None:
        self.folder = LabFolder(Path(folder))
        self.id = lab_id(self.folder.path)

    def up(
        self,
        machines: int = 5,
        kind: Kind = "nspawn",
        leaves: int = 2,
        *,
        mounts: Sequence[tuple[Path | str, str, Path | str]] = (),
        storage: Path | str | None = None,
        attached: bool = False,
        say: Say = say_on_stderr,
    ) -> Lab:
        """Brings the lab up: machines cabled, powered off, their BMCs listening.

        `mounts` are (folder of the host, "ro" or "rw", path in the machines); `storage` is a folder
        of the host (made if missing) with one sub-folder for each tenant, which a tenant's machines
        see at /srv/storage.  An `attached` lab ends when the calling process ends, however that happens.
        `BadInput` and `Unavailable` say what is wrong or missing; then nothing was changed.
        """
        checked = _checked_mounts(mounts)
        share = _share(storage)
        _check_size(machines, kind, leaves)
        require_programs(kind)
        make_register()
        with locked(register_folder() / "lock"):
            if is_alive(self.id):
                raise Conflict(f"a lab is up in {self.folder.path}", do="infra-os lab down")
            sweep(self.id)
            say(f"{machines} {kind} machines on {leaves} leaves")
            plan = self._new_plan(machines, kind, leaves, checked, share)
            try:
                self._start(plan, attached=attached, say=say)
            except BaseException:
                sweep(self.id)
                raise
        say(f"up: BMCs at 127.0.0.1:{plan.machines[0].bmc_port}-{plan.machines[-1].bmc_port}")
        return self

    def stands(
        self,
        machines: int,
        kind: Kind,
        leaves: int,
        *,
        mounts: Sequence[tuple[Path | str, str, Path | str]] = (),
        storage: Path | str | None = None,
    ) -> bool:
        """Whether a lab of just this shape is up here and answers: an `up` that was killed at its end."""
        plan, entry = self.folder.read_plan(), read_entry(self.id)
        if plan is None or entry is None or not is_alive(self.id):
            return False
        shape = (len(plan.machines), plan.kind, plan.leaves, plan.mounts, plan.storage)
        wanted = (machines, kind, leaves, _checked_mounts(mounts), _share(storage))
        return shape == wanted and _answers(entry.socket)

    def down(self) -> None:
        """Takes the lab down and removes everything that it made; no lab there is fine."""
        entry = read_entry(self.id)
        if entry is not None and entry.owner.alive() and entry.owner.pid != os.getpid():
            _end(entry.owner)
        sweep(self.id)
        self._remove_files()

    @staticmethod
    def clean() -> list[str]:
        """Removes what dead labs of this machine have left, and gives their ids."""
        make_register()
        with locked(register_folder() / "lock"):
            dead = sorted(identity for identity in known_ids() if not is_alive(identity))
            for identity in dead:
                sweep(identity)
        return dead

    def status(self) -> list[dict[str, Any]]:
        """One row for each machine; none when no lab is up here."""
        if is_alive(self.id):
            rows: list[dict[str, Any]] = self._ask(do="status")
            return rows
        plan = self.folder.read_plan()
        dead = {"kind": plan.kind, "power": "unknown", "stage": "the lab is dead"} if plan else {}
        return [{"name": machine.name, **dead} for machine in (plan.machines if plan else ())]

    @property
    def alive(self) -> bool:
        """Whether a lab is up here: the process that holds its machines and BMCs runs."""
        return is_alive(self.id)

    def inject(
        self, machine: str, fault: str, *, segment: str = "compute", value: float | None = None
    ) -> None:
        """Puts a fault (see `FAULTS`) into a machine, its BMC or one of its cables."""
        self._ask(do="inject", machine=machine, fault=fault, segment=segment, value=value)

    def clear(self, machine: str, fault: str | None = None) -> None:
        """Takes a fault, or every fault, out of a machine."""
        self._ask(do="clear", machine=machine, fault=fault)

    def fabric(self) -> Fabric:
        """The lab's switches."""
        from l0_infra_os.backends.fabric import open_fabric

        return open_fabric(self.folder.path)

    @property
    def plan(self) -> Plan:
        """What the lab consists of; `Unavailable` when none was brought up."""
        plan = self.folder.read_plan()
        if plan is None:
            raise Unavailable(f"no lab is up in {self.folder.path}", do="infra-os lab up")
        return plan

    @property
    def endpoints(self) -> list[str]:
        """The address of each machine's BMC, in the order of the machines."""
        return [f"127.0.0.1:{machine.bmc_port}" for machine in self.plan.machines]

    @property
    def username(self) -> str:
        """The user of all BMCs."""
        return self.folder.credentials().username

    @property
    def password(self) -> str:
        """The password of all BMCs, made for this lab."""
        return self.folder.credentials().password

    @property
    def controller(self) -> str:
        """The host's address on the management segment."""
        return self.plan.controller

    def _new_plan(
        self, machines: int, kind: Kind, leaves: int, mounts: tuple[Mount, ...], storage: Path | None
    ) -> Plan:
        """A plan with free ports and a free subnet; the ones of before where they are still free."""
        previous = self.folder.read_plan()
        preferred = previous.machines[0].bmc_port if previous else None
        return make_plan(
            self.folder.path,
            machines=machines,
            kind=kind,
            leaves=leaves,
            hardware=hardware(kind),
            bmc_ports=bmc_ports(machines, preferred),
            subnet=None if kind == "process" else network.free_subnet(self.id),
            mounts=mounts,
            storage=storage,
        )

    def _start(self, plan: Plan, *, attached: bool, say: Say) -> None:
        me = Process.of(os.getpid())
        if me is None:
            raise Failed("this process is not in /proc")
        entry = Entry(plan.id, self.folder.path, me)
        entry.write()
        self.folder.path.mkdir(parents=True, exist_ok=True, mode=0o755)
        self.folder.write_plan(plan)
        atomic_write(self.folder.password_file, self.password + "\n", mode=0o600)
        if plan.storage is not None:
            plan.storage.mkdir(parents=True, exist_ok=True)
        atomic_write(self.folder.fabric_file, network.describe(plan).model_dump_json(indent=1))
        prepare(plan, self.folder, say)
        if plan.subnet is not None:
            say(f"network: controller at {plan.controller}, bridges in {plan.fabric_netns}")
            network.build(plan)
        say("starting the BMCs")
        self._start_keeper(entry, attached=attached)

    def _start_keeper(self, entry: Entry, *, attached: bool) -> None:
        owner = os.getpid() if attached else 0
        command = [sys.executable, "-m", "l0_infra_os.lab.keeper", str(self.folder.path), str(owner)]
        with open(self.folder.log_file, "ab") as log:
            keeper = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, REGISTER_VARIABLE: self.id},
                start_new_session=True,
                cwd="/",
            )
        deadline = time.monotonic() + START_PATIENCE_S
        while not _answers(entry.socket):
            if keeper.poll() is not None or time.monotonic() > deadline:
                tail = self.folder.log_file.read_text("utf-8", errors="replace").splitlines()[-6:]
                raise Failed("the lab did not start", why="\n".join(tail), do=f"see {self.folder.log_file}")
            time.sleep(0.05)
        _reap_later(keeper)

    def _ask(self, **request: Any) -> Any:
        entry = read_entry(self.id)
        if entry is None or not entry.owner.alive():
            raise Unavailable(f"no lab is up in {self.folder.path}", do="infra-os lab up")
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(30)
            try:
                connection.connect(str(entry.socket))
                connection.sendall((json.dumps(request) + "\n").encode())
                answer = json.loads(connection.makefile("r", encoding="utf-8").readline() or "{}")
            except (OSError, ValueError) as error:
                raise Unavailable(
                    "the lab does not answer", why=str(error), do="infra-os lab down"
                ) from error
        if "problem" in answer:
            kind: type[Problem] = getattr(problems, answer["kind"], Failed)
            words = answer["problem"]
            raise kind(words.pop("what"), **words)
        return answer.get("value")

    def _remove_files(self) -> None:
        for name in ("machines", "agent"):
            shutil.rmtree(self.folder.path / name, ignore_errors=True)
        for name in LAB_FILES:
            (self.folder.path / name).unlink(missing_ok=True)


LAB_FILES = (
    "lab.json",
    "credentials.json",
    "password",
    "bmc-accounts",
    "fabric.json",
    "fabric.lock",
    "boot-url",
    "reservations.json",
    "dhcp-hosts",
    "dhcp-options",
    "dnsmasq.log",
    "keeper.log",
)


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
        except OSError:
            return False
        return True


def _reap_later(keeper: subprocess.Popen[bytes]) -> None:
    """The keeper outlives this call; its end is noticed by whoever still runs here then."""
    import threading

    threading.Thread(target=keeper.wait, daemon=True).start()


def _end(owner: Process) -> None:
    """Asks the keeper to take the lab down and waits until it is gone."""
    try:
        os.kill(owner.pid, 15)
    except ProcessLookupError:
        return
    deadline = time.monotonic() + STOP_PATIENCE_S
    while owner.alive() and time.monotonic() < deadline:
        time.sleep(0.05)


def _check_size(machines: int, kind: str, leaves: int) -> None:
    if kind not in KINDS:
        raise BadInput(f"{kind!r} is not one of {', '.join(KINDS)}", field="kind")
    if not 1 <= machines <= 240:
        raise BadInput("a lab has 1 to 240 machines", field="machines")
    if not 1 <= leaves <= 16:
        raise BadInput("a lab has 1 to 16 leaves", field="leaves")


def _checked_folder(field: str, path: Path | str) -> Path:
    folder = Path(path).absolute()
    if not folder.is_dir():
        raise BadInput(f"there is no folder {folder}", field=field)
    return folder


def _share(storage: Path | str | None) -> Path | None:
    folder = None if storage is None else Path(storage).absolute()
    if folder is not None and folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is no folder", field="storage")
    return folder


def _checked_mounts(mounts: Sequence[tuple[Path | str, str, Path | str]]) -> tuple[Mount, ...]:
    checked = []
    for source, mode, target in mounts:
        if mode not in ("ro", "rw"):
            raise BadInput(f"{mode!r} is not ro or rw", field="mounts")
        if not Path(target).is_absolute():
            raise BadInput(f"{target} is not an absolute path", field="mounts")
        checked.append(Mount(source=_checked_folder("mounts", source), mode=mode, target=Path(target)))
    return tuple(checked)
