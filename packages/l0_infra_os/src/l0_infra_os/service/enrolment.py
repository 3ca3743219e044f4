"""Bringing machines under management: look at every address, then take all of them in or none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from sqlalchemy import func, select

from l0_infra_os._kit.problems import BadInput, Failed, Problem, Unavailable
from l0_infra_os.core.addresses import expand_all
from l0_infra_os.core.isolation import SegmentKind
from l0_infra_os.core.lifecycle import NodeState
from l0_infra_os.ports import BmcNic, Credentials, SystemInventory
from l0_infra_os.store.repository import Transaction
from l0_infra_os.store.tables import Node, Port

from .site import Site

HOSTNAME = re.compile(r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$")
MAC = re.compile(r"^[0-9a-f]{2}(:[0-9a-f]{2}){5}$")
CREDENTIAL = re.compile(r"[ -~]+")
LONGEST_CREDENTIAL = 255
#: Names that makers give to every machine.
GENERIC = {"system", "computer-system", "default", "server", "localhost", "none", "fake"}
#: Until the machine has told, its first port is the one it boots from.
KINDS: tuple[SegmentKind, ...] = ("management", "compute", "storage")
LOOK_TIMEOUT_S = 2.0


@dataclass(frozen=True)
class Declared:
    """What an operator says of a machine before it is looked at; empty fields are not checked."""

    address: str
    name: str = ""
    macs: tuple[str, ...] = ()
    leaf: str = ""
    rack: str = ""


@dataclass(frozen=True)
class Found:
    """A machine that answered with its BMC's address."""

    address: str
    system: SystemInventory
    declared: Declared


@dataclass
class Enrolled:
    """What an enrolment did: new nodes, those that were known, addresses where nothing listens."""

    new: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    silent: list[str] = field(default_factory=list)


def enroll(
    site: Site,
    ranges: Sequence[str],
    credentials: Credentials,
    *,
    actor: str,
    declared: Sequence[Declared] = (),
    tick: Callable[[int, int], None] = lambda _done, _total: None,
) -> Enrolled:
    """Takes in every BMC that answers in the ranges, or none of them.

    In a range, an address where no BMC answers is skipped; an address given by itself, or
    declared, must answer.  A BMC that answers and refuses the password fails the whole call.
    """
    check_credentials(credentials)
    check_declared(declared)
    by_address = {row.address: row for row in declared}
    addresses = list(dict.fromkeys([*expand_all(list(ranges)), *by_address]))
    if not addresses:
        raise BadInput("no address given", field="addresses", do="give a range such as 10.0.0.0/24")
    must_answer = {text.strip() for text in ranges} | set(by_address)
    found, silent = _look(site, addresses, credentials, by_address, must_answer, tick)
    if not found:
        raise Unavailable(
            f"no BMC answers at {', '.join(ranges)}", do="check the addresses and that the BMCs are powered"
        )
    _check_unique(found)
    result = Enrolled(silent=silent)
    site.credentials.put([row.address for row in found], credentials)

    def take_in(tx: Transaction) -> None:
        result.new, result.known = [], []
        for row in found:
            node, is_new = _take_in(tx, row)
            (result.new if is_new else result.known).append(node.id)
        if result.new:
            tx.audit(actor, "enroll", f"{len(result.new)} nodes", nodes=result.new)

    site.store.run(take_in)
    return result


def check_credentials(credentials: Credentials) -> None:
    """`BadInput` for a name or password that HTTP's basic authentication cannot carry; never shows it."""
    for name in ("username", "password"):
        value = getattr(credentials, name)
        if not value:
            raise BadInput("is empty", field=name)
        if len(value) > LONGEST_CREDENTIAL or not CREDENTIAL.fullmatch(value):
            raise BadInput(
                f"is not one line of at most {LONGEST_CREDENTIAL} letters, digits and signs of ASCII",
                field=name,
                do="give the BMC's own, or set one on the BMC that has only these",
            )


def check_declared(declared: Sequence[Declared]) -> None:
    """`BadInput` for a declared inventory that contradicts itself; names both rows."""
    seen: dict[str, str] = {}
    for row in declared:
        if not row.address.strip():
            raise BadInput("a machine has no address", field="address", do="give the address of its BMC")
        for mac in row.macs:
            if not MAC.match(mac.lower()):
                raise BadInput(f"{row.address}: {mac!r} is no MAC address", field="macs")
            if other := seen.get(mac.lower()):
                holders = (
                    f"for {other} and for {row.address}" if other != row.address else f"twice for {other}"
                )
                raise BadInput(
                    f"{mac} is declared {holders}",
                    field="macs",
                    do="a MAC belongs to one machine: correct the inventory",
                )
            seen[mac.lower()] = row.address
    for name in ("address", "name"):
        values = [value for row in declared if (value := getattr(row, name))]
        if twice := next((value for value in values if values.count(value) > 1), None):
            raise BadInput(f"{twice!r} is declared twice", field=name)


def _look(
    site: Site,
    addresses: Sequence[str],
    credentials: Credentials,
    declared: dict[str, Declared],
    must_answer: set[str],
    tick: Callable[[int, int], None],
) -> tuple[list[Found], list[str]]:
    from l0_infra_os.backends.bmc.address import answers

    def look(address: str) -> Found | str:
        if address not in must_answer and not answers(address, LOOK_TIMEOUT_S):
            return address
        try:
            system = site.connector.connect(address, credentials).inventory()
        except (Failed, Unavailable):
            if address in must_answer:
                raise
            return address  # something else than a BMC listens there
        return Found(address, system, declared.get(address) or Declared(address))

    found: list[Found] = []
    silent: list[str] = []
    with ThreadPoolExecutor(max_workers=max(4, site.settings.workers)) as pool:
        for done, row in enumerate(pool.map(look, addresses), 1):
            found.append(row) if isinstance(row, Found) else silent.append(row)
            tick(done, len(addresses))
    return found, silent


def _check_unique(found: Sequence[Found]) -> None:
    owners: dict[str, str] = {}
    for row in found:
        if not row.system.nics:
            raise Failed(f"BMC {row.address} reports no network port", do="check its firmware version")
        macs = {nic.mac for nic in row.system.nics}
        for mac in macs:
            if other := owners.get(mac):
                raise BadInput(
                    f"{row.address} and {other} both report MAC {mac}",
                    field="mac",
                    why="two machines cannot share a MAC, or one machine answers at two addresses",
                    do="enroll one of them, or correct the duplicate",
                )
            owners[mac] = row.address
        if missing := {mac.lower() for mac in row.declared.macs} - macs:
            raise BadInput(
                f"{row.address} has no port with MAC {', '.join(sorted(missing))}",
                field="macs",
                why=f"it reports {', '.join(sorted(macs))}",
                do="another machine is cabled there, or the declaration is wrong",
            )


def _take_in(tx: Transaction, found: Found) -> tuple[Node, bool]:
    system = found.system
    node = tx.session.scalar(select(Node).where(Node.uuid == system.uuid))
    if node is not None:
        node.bmc_address = found.address
        return node, False
    moved = tx.session.scalar(select(Node).where(Node.bmc_address == found.address))
    if moved is not None:
        raise BadInput(
            f"{found.address} is the BMC of {moved.id}, but another machine answers there",
            field="addresses",
            do=f"forget the old one first: infra-os forget {moved.id}",
        )
    for nic in system.nics:
        if port := tx.session.get(Port, nic.mac):
            raise BadInput(f"{found.address} reports MAC {nic.mac} of node {port.node_id}", field="mac")
    node = _new_node(tx, found)
    tx.session.add(node)
    tx.session.flush()
    tx.interval(node, "enroll", tenant=None)
    return node, True


def _new_node(tx: Transaction, found: Found) -> Node:
    system, declared = found.system, found.declared
    number = _free_number(tx)
    return Node(
        id=_name(tx, declared.name or system.name, number, declared=bool(declared.name)),
        number=number,
        uuid=system.uuid,
        serial=system.serial,
        bmc_address=found.address,
        model=" ".join(filter(None, (system.manufacturer, system.model))),
        leaf=declared.leaf,
        rack=declared.rack,
        facts={
            "arch": system.arch,
            "cpu": {"model": system.cpu_model, "cores": system.cpu_count},
            "memory_bytes": system.memory_bytes,
        },
        power=system.power,
        state=NodeState.ENROLLED,
        since=tx.now,
        ports=[_port(position, nic) for position, nic in enumerate(system.nics)],
    )


def _port(position: int, nic: BmcNic) -> Port:
    kind = KINDS[min(position, len(KINDS) - 1)]
    return Port(mac=nic.mac, position=position, name=nic.name, kind=kind, link_gbps=nic.link_gbps)


def _free_number(tx: Transaction) -> int:
    taken = set(tx.session.scalars(select(Node.number)))
    return next(number for number in range(1, len(taken) + 2) if number not in taken)


def _name(tx: Transaction, wanted: str, number: int, *, declared: bool) -> str:
    name = re.sub(r"[^a-z0-9-]+", "-", wanted.lower()).strip("-")[:63]
    taken = bool(tx.session.scalar(select(func.count()).where(Node.id == name)))
    usable = bool(HOSTNAME.match(name)) and (name not in GENERIC or declared)
    if declared and (taken or not usable):
        raise BadInput(f"{wanted!r} is taken or no host name", field="name")
    return name if usable and not taken else f"node-{number}"


def describe_failure(problem: Problem) -> str:
    """A problem in one line, for a node's record."""
    return f"{problem.what}: {problem.why}" if problem.why else problem.what
