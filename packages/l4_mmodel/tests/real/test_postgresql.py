"""The registry on a real PostgreSQL: a private cluster in a temporary folder, on a Unix socket."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from l4_mmodel.api import Mmodel, NotFound, Settings, Unavailable

pytestmark = pytest.mark.real
ModelMaker = Callable[..., Path]


def program(name: str) -> str:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)
    found = str(places[0]) if places else shutil.which(name)
    if found is None:
        pytest.skip(f"needs PostgreSQL's {name} (Debian package postgresql)")
    return found


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    pytest.importorskip("psycopg")
    initdb, postgres = program("initdb"), program("postgres")
    folder = Path(tempfile.mkdtemp(prefix="ogai-l4-pg-"))
    who: dict[str, object] = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        try:
            user = pwd.getpwnam("postgres")
        except KeyError:
            pytest.skip("needs a user postgres to run the server as")
        os.chown(folder, user.pw_uid, user.pw_gid)
        who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    quiet = {"cwd": folder, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, **who}
    data = str(folder / "data")
    subprocess.run(
        [initdb, "-D", data, "-U", "ogai", "-A", "trust", "--no-sync", "-E", "UTF8"], check=True, **quiet
    )  # type: ignore[call-overload]
    command = [postgres, "-D", data, "-k", str(folder), "-c", "listen_addresses="]
    server = subprocess.Popen(command, **quiet)  # type: ignore[call-overload]
    address = f"postgresql://ogai@/postgres?host={folder}"
    for _ in range(200):
        try:
            Mmodel(Settings(home=folder / "probe", database_url=address)).close()
            break
        except Unavailable:
            time.sleep(0.1)
    yield address
    server.terminate()
    server.wait()
    shutil.rmtree(folder, ignore_errors=True)


def test_register_alias_audit_and_collect(url: str, tmp_path: Path, make_model: ModelMaker) -> None:
    one = Mmodel(Settings(home=tmp_path / "home", database_url=url), tenant="a")
    version = one.register(make_model(), alias="production", tags={"lang": "中文"})
    assert one.version("tiny@production").tags == {"lang": "中文"}
    with pytest.raises(NotFound):
        one.of("b", "test").version("tiny")
    one.keys.create("k")
    one.deploy(version)
    one.stop("tiny")
    assert one.store.broken_audit_row() is None
    assert [row["action"] for row in one.store.audit_rows("a")][-1] == "register"
    assert one.collect() == []
    one.close()


def test_writers_at_once_get_numbers_of_their_own(url: str, tmp_path: Path, make_model: ModelMaker) -> None:
    one = Mmodel(Settings(home=tmp_path / "home", database_url=url), tenant="many")
    paths = [make_model(weights=bytes([n])) for n in range(12)]
    one.register(paths[0])
    faults: list[BaseException] = []

    def register(some: list[Path]) -> None:
        try:
            for path in some:
                one.register(path)
        except BaseException as error:  # noqa: BLE001 (told below)
            faults.append(error)

    threads = [threading.Thread(target=register, args=(paths[n::3],)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert sorted(version.number for version in one.registry.all("many")) == list(range(1, 13))
    assert one.store.broken_audit_row() is None
    one.close()
