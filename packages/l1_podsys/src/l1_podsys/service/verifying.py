"""Verify: one SSH session per host, measurements in bounded time, a report of what was found."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from l1_podsys._kit.problems import Problem
from l1_podsys.core.acceptance import CHECKS, Measured, judge, rounds
from l1_podsys.core.acceptance.verdicts import Value
from l1_podsys.core.inventory import Host, Inventory
from l1_podsys.core.planning import Profile
from l1_podsys.ports import Session, Transport
from l1_podsys.probe import program

from .gathering import on_all

T = TypeVar("T")
CLOCK_ROUNDS = 8
AGAIN = ("disk-write", "disk-fsync", "network-bandwidth", "network-latency")
MOST_AGAIN = 8
Say = Callable[[str], None]


class Verifier:
    """Measures the hosts of one inventory that answered; what fails is a finding, not an end."""

    def __init__(
        self, inventory: Inventory, profile: Profile | None, transport: Transport, *, parallel: int, say: Say
    ) -> None:
        self.inventory = inventory
        self.profile = profile
        self.transport = transport
        self.parallel = parallel
        self.say = say
        self.measured = Measured()
        self.lock = threading.Lock()

    def measure(self, hosts: list[str]) -> Measured:
        """All measurements on these hosts."""
        with contextlib.ExitStack() as stack:
            sessions: dict[str, Session] = {}

            def open_session(host: str) -> Session:
                session = self.transport.session(host, program("measure", {}))
                opened = session.__enter__()
                with self.lock:
                    stack.push(session)
                opened.ask({"do": "clock"})
                return opened

            sessions, problems = on_all(hosts, open_session, parallel=self.parallel)
            self.measured.unreachable |= {host: problem.what for host, problem in problems.items()}
            self.say("processor, memory, disk and clock of each host")
            on_all(sessions, lambda host: self._host(host, sessions[host]), parallel=self.parallel)
            order = [host for host in hosts if host in sessions]
            plan = rounds(order)
            for number, pairs in enumerate(plan, 1):
                self.say(f"network, round {number} of {len(plan)}")
                self._round(pairs, sessions)
            self._second_look(sessions)
        return self.measured

    def _second_look(self, sessions: dict[str, Session]) -> None:
        """Measures again, alone, what stands out: a busy moment is no fault, and must not look like one."""
        expect = self.profile.expect if self.profile else {}
        odd: dict[tuple[str, str | None], None] = {}
        for name in AGAIN:
            for result in judge(name, self.measured.values.get(name, []), expect):
                if result.verdict in ("warn", "fail") and result.value is not None:
                    odd[str(result.node), result.peer] = None
        for host, peer in list(odd)[:MOST_AGAIN]:
            self.say(f"again: {host}{f' to {peer}' if peer else ''}")
            if peer is None:
                answer = self._try(host, "disk", lambda: sessions[host].ask({"do": "disk"}, 60))  # noqa: B023
                names = {"disk-write": "write_mb_per_s", "disk-fsync": "fsync_ms"}
            else:
                answer = self._try(host, "network", lambda: self._pair(host, peer, sessions))  # noqa: B023
                names = {"network-bandwidth": "gbit_per_s", "network-latency": "latency_us"}
            if not isinstance(answer, Problem):
                for name, field in names.items():
                    self._better(name, host, peer, float(answer[field]))

    def _better(self, name: str, host: str, peer: str | None, second: float) -> None:
        """Keeps the better of two measurements, and says both."""
        rows = self.measured.values[name]
        for index, row in enumerate(rows):
            if (row.node, row.peer) == (host, peer) and row.value is not None:
                best = max(row.value, second) if CHECKS[name].more_is_better else min(row.value, second)
                evidence = [*row.evidence, f"first {row.value:.4g}, again alone {second:.4g}"]
                rows[index] = row._replace(value=best, evidence=evidence)

    def _host(self, host: str, session: Session) -> None:
        self._clock(host, session)
        cpu = self._try(host, "cpu", lambda: session.ask({"do": "cpu"}))
        self._keep("cpu", host, cpu, "mb_per_s")
        memory = self._try(host, "memory", lambda: session.ask({"do": "memory"}))
        self._keep("memory", host, memory, "gb_per_s")
        disk = self._try(host, "disk", lambda: session.ask({"do": "disk"}, 60))
        self._keep("disk-write", host, disk, "write_mb_per_s")
        self._keep("disk-fsync", host, disk, "fsync_ms")
        self._endpoint(host, session)

    def _try(self, host: str, name: str, work: Callable[[], T]) -> T | Problem:
        try:
            return work()
        except Problem as problem:
            self.say(f"{host}: {name}: {problem.what}")
            return problem

    def _keep(
        self, name: str, host: str, answer: dict[str, Any] | Problem, field: str, peer: str | None = None
    ) -> None:
        if isinstance(answer, Problem):
            value = Value(host, peer, None, f"{answer.what}: {answer.why}" if answer.why else answer.what)
        else:
            spread = answer.get("rounds")
            rates = [f"{rate:.4g}" for rate in spread] if isinstance(spread, list) else []
            evidence = [f"rounds {' '.join(rates)}"] if rates else []
            value = Value(host, peer, float(answer[field]), evidence=evidence)
        with self.lock:
            self.measured.values.setdefault(name, []).append(value)

    def _clock(self, host: str, session: Session) -> None:
        """Offset by the exchange with the shortest round trip; half of that is the uncertainty."""
        best: tuple[float, float] | None = None
        for _ in range(CLOCK_ROUNDS):
            before = time.time()
            answer = self._try(host, "clock", lambda: session.ask({"do": "clock"}))
            after = time.time()
            if isinstance(answer, Problem):
                return
            trip = after - before
            if best is None or trip < 2 * best[1]:
                best = (answer["time"] - (before + after) / 2, trip / 2)
        if best is not None:
            self.measured.clocks[host] = best

    def _endpoint(self, host: str, session: Session) -> None:
        """The exporter's metrics, asked on the host itself."""
        exporter = self.profile.node_exporter if self.profile else None
        if exporter is None:
            return
        url = f"http://{self.inventory.host(host).address}:{exporter.port}/metrics"
        answer = self._try(host, "metrics", lambda: session.ask({"do": "fetch", "url": url}))
        problem = f"{answer.what} {answer.why}" if isinstance(answer, Problem) else None
        self.measured.endpoints[host] = ("node-exporter", url, problem)

    def _round(self, pairs: list[tuple[str, str]], sessions: dict[str, Session]) -> None:
        def one(host: str) -> None:
            peer = partners[host]
            answer = self._try(host, f"network to {peer}", lambda: self._pair(host, peer, sessions))
            self._keep("network-bandwidth", host, answer, "gbit_per_s", peer)
            self._keep("network-latency", host, answer, "latency_us", peer)

        partners = dict(pairs)
        on_all(partners, one, parallel=self.parallel)

    def _pair(self, host: str, peer: str, sessions: dict[str, Session]) -> dict[str, float]:
        source, target = self._places(self.inventory.host(host), self.inventory.host(peer))
        port = sessions[peer].ask({"do": "listen", "address": target})["port"]
        return sessions[host].ask({"do": "connect", "address": target, "source": source, "port": port})

    @staticmethod
    def _places(host: Host, peer: Host) -> tuple[str, str]:
        """Their addresses on the compute segment where both have one, else on management."""
        if "compute" in host.addresses and "compute" in peer.addresses:
            return host.addresses["compute"], peer.addresses["compute"]
        return host.address, peer.address
