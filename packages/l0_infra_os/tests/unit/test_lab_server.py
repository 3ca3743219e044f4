"""A server's power and boot logic, with a body that the test ends by hand."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from l0_infra_os.lab.plan import Machine
from l0_infra_os.lab.server import Outcome, Server, Source

MACHINE = Machine(
    name="m1",
    number=1,
    uuid="u",
    serial="s",
    model="m",
    leaf="leaf1",
    rack="rack1",
    bmc_port=1,
    ports=(),
    cpu_cores=1,
    cpu_model="",
    memory_bytes=1,
    disk_bytes=1,
)


class HandBody:
    """Runs until it is killed or the test ends it; remembers what it was booted from."""

    def __init__(self, *, disk: bool = True) -> None:
        self.stage = "running"
        self.disk = disk
        self.booted: list[Source] = []
        self.ends: queue.Queue[Outcome] = queue.Queue()
        self.power_button = 0

    def boot(self, source: Source, cut: threading.Event) -> Outcome:
        with self.ends.mutex:
            self.ends.queue.clear()  # the power button of the last boot
        self.booted.append(source)
        while not cut.is_set():
            try:
                return self.ends.get(timeout=0.002)
            except queue.Empty:
                continue
        return "off"

    def has_disk(self) -> bool:
        return self.disk

    def shut_down(self) -> None:
        self.power_button += 1
        self.ends.put("off")

    def kill(self) -> None:
        """The cut event is enough."""

    @property
    def pid(self) -> int | None:
        return None


@pytest.fixture
def body() -> HandBody:
    return HandBody()


@pytest.fixture
def server(body: HandBody) -> Iterator[Server]:
    made = Server(MACHINE, body)
    made.start()
    yield made
    made.close()


def eventually(check: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 5
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_an_override_for_once_is_used_up_by_one_boot(server: Server, body: HandBody) -> None:
    server.set_boot(target="Pxe", enabled="Once")
    assert (server.boot.target, server.boot.enabled) == ("Pxe", "Once")
    server.reset("On")
    eventually(lambda: body.booted == ["network"])
    assert (server.boot.target, server.boot.enabled) == ("None", "Disabled")
    body.ends.put("reboot")
    eventually(lambda: body.booted == ["network", "disk"])


def test_a_continuous_override_stays(server: Server, body: HandBody) -> None:
    server.set_boot(target="Pxe", enabled="Continuous")
    server.reset("On")
    eventually(lambda: len(body.booted) == 1)
    body.ends.put("reboot")
    eventually(lambda: body.booted == ["network", "network"])
    assert server.boot.enabled == "Continuous"


@pytest.mark.parametrize(("disk", "source"), [(True, "disk"), (False, "network")])
def test_without_an_override_the_disk_is_first_if_there_is_something_on_it(disk: bool, source: str) -> None:
    body = HandBody(disk=disk)
    server = Server(MACHINE, body)
    server.start()
    server.reset("On")
    eventually(lambda: body.booted == [source])
    server.close()


def test_on_during_power_off_is_not_lost(server: Server, body: HandBody) -> None:
    """Real BMCs lose it (and sushy-tools' fake driver does)."""
    server.reset("On")
    eventually(lambda: len(body.booted) == 1)
    server.reset("ForceOff")
    server.reset("On")
    eventually(lambda: len(body.booted) == 2)
    assert server.power == "On"


def test_the_power_button_ends_the_system_and_the_power(server: Server, body: HandBody) -> None:
    server.reset("On")
    eventually(lambda: server.power == "On")
    server.reset("GracefulShutdown")
    eventually(lambda: server.power == "Off")
    assert body.power_button == 1
    server.reset("GracefulShutdown")
    assert body.power_button == 1, "a machine that is off has nothing to shut down"


def test_a_machine_with_nothing_to_boot_stays_powered(server: Server, body: HandBody) -> None:
    server.reset("On")
    eventually(lambda: len(body.booted) == 1)
    body.ends.put("halt")
    eventually(body.ends.empty)
    time.sleep(0.05)
    assert server.power == "On"
    server.reset("ForceRestart")
    eventually(lambda: len(body.booted) == 2)
    server.reset("ForceOff")
    eventually(lambda: server.power == "Off")


def test_a_bmc_that_ignores_the_override_keeps_the_old_one(server: Server) -> None:
    server.faults["bmc-ignores-boot"] = True
    server.set_boot(target="Pxe", enabled="Once")
    assert server.boot.target == "None"


def test_a_machine_that_boots_its_disk_anyway(server: Server, body: HandBody) -> None:
    server.faults["boots-disk-anyway"] = True
    server.set_boot(target="Pxe", enabled="Once")
    server.reset("On")
    eventually(lambda: body.booted == ["disk"])


ACTIONS = ("On", "ForceOff", "ForceRestart", "GracefulShutdown", "GracefulRestart", "PowerCycle", "Nmi")


@given(st.lists(st.sampled_from(ACTIONS), max_size=12), st.sampled_from(["On", "ForceOff"]))
def test_after_any_commands_the_last_clear_one_holds(actions: list[str], last: str) -> None:
    body = HandBody()
    server = Server(MACHINE, body)
    server.start()
    for action in actions:
        server.reset(action)
    if last == "On":  # an On that meets a shutdown under way is answered by the shutdown
        server.reset("ForceOff")
    server.reset(last)
    wanted = "On" if last == "On" else "Off"
    try:
        eventually(lambda: server.power == wanted)
    finally:
        server.close()
    assert server.power == "Off"
