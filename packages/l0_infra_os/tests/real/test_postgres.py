"""The same store on PostgreSQL: tables, transitions, and callers that race for nodes and quota."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from l0_infra_os._kit.problems import Conflict
from l0_infra_os.core.lifecycle import NodeState
from l0_infra_os.service import leasing, views
from l0_infra_os.service.site import Site, open_site
from l0_infra_os.settings import Settings
from l0_infra_os.store.tables import Node, Port
from l0_infra_os.testing import MemoryFabric

pytestmark = pytest.mark.real


@pytest.fixture(scope="module")
def database_url() -> Iterator[str]:
    """A PostgreSQL server of our own on a socket, gone afterwards; OGAI_TEST_POSTGRES names another."""
    if url := os.environ.get("OGAI_TEST_POSTGRES"):
        yield url
        return
    pytest.importorskip("psycopg", reason="needs psycopg: pip install l0-infra-os[postgresql]")
    programs = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if not programs or shutil.which("runuser") is None or os.geteuid() != 0:
        pytest.skip("needs root and PostgreSQL: apt-get install -y postgresql")
    with tempfile.TemporaryDirectory(prefix="l0pg-") as name:
        folder = Path(name)
        shutil.chown(folder, "postgres")
        data = folder / "data"

        def run(program: str, *words: str | Path) -> None:
            command = ["runuser", "-u", "postgres", "--", str(programs[-1] / program), *map(str, words)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/")

        run("initdb", "-D", data, "-A", "trust", "--no-sync")
        options = f"-k {folder} -c listen_addresses='' -c fsync=off"
        run("pg_ctl", "-D", data, "-w", "-l", folder / "log", "-o", options, "start")
        try:
            yield f"postgresql://postgres@/postgres?host={folder}"
        finally:
            run("pg_ctl", "-D", data, "-w", "-m", "immediate", "stop")


@pytest.fixture
def site(database_url: str, tmp_path: Path) -> Iterator[Site]:
    """A site with eight available nodes."""
    settings = Settings.load(home=tmp_path, lab_dir=tmp_path, database_url=database_url)
    opened = open_site(settings, given_fabric=MemoryFabric())
    with opened.store.begin() as tx:
        for number in range(1, 9):
            node = Node(
                id=f"n{number}", number=number, uuid=f"u{number}", serial="s", bmc_address=f"b{number}",
                leaf=f"leaf{number % 2}", rack="r", state=NodeState.AVAILABLE, since=tx.now,
                ports=[Port(mac=f"02:00:00:00:00:0{number}", position=0, kind="management")],
            )  # fmt: skip
            tx.session.add(node)
            tx.session.flush()
            tx.interval(node, "inspected", tenant=None)
    for tenant in ("red", "blue"):
        leasing.create_tenant(opened, tenant, quota_nodes=3, actor="t")
    yield opened
    opened.close()


def test_callers_that_race_share_no_node_and_stay_within_their_quota(site: Site) -> None:
    def ask(number: int) -> str | None:
        try:
            return leasing.lease(site, ("red", "blue")[number % 2], nodes=1, actor="t")
        except Conflict:
            return None

    with ThreadPoolExecutor(8) as pool:
        got = [lease for lease in pool.map(ask, range(24)) if lease]
    nodes = [views.lease(site, lease).members[0] for lease in got]
    assert len(got) == len(set(nodes)) == 6
    assert [row["held_nodes"] for row in views.tenants(site)] == [3, 3]
    for lease in got:
        leasing.release(site, lease, actor="t")
    assert {node.state for node in views.nodes(site)} == {"available", "detaching"}
    assert sum(row["charged"] for row in views.meter(site)) >= 1
