"""Encryption at rest: nothing plain on disk, tenants apart, keys that can be erased, kills leave nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from l4_mmodel._kit.problems import BadInput, Failed, Unavailable
from l4_mmodel.api import Mmodel, Settings
from l4_mmodel.testing import safetensors

pytest.importorskip("cryptography", reason="needs cryptography")
ModelMaker = Callable[..., Path]
SECRET = b"the weights of the secret model!" * 100


@pytest.fixture
def sealing(settings: Settings) -> Settings:
    return settings.model_copy(update={"encrypt": True})


@pytest.fixture
def vault(sealing: Settings) -> Iterator[Mmodel]:
    one = Mmodel(sealing)
    yield one
    one.close()


def plain_on_disk(settings: Settings, secret: bytes) -> list[Path]:
    """Files of the state folder that hold some of the secret."""
    files = [path for path in settings.state_dir.rglob("*") if path.is_file()]
    return [path for path in files if secret[:32] in path.read_bytes()]


def test_weights_and_their_names_are_sealed(vault: Mmodel, make_model: ModelMaker, sealing: Settings) -> None:
    version = vault.register(make_model(weights=SECRET), alias="production")
    assert vault.verify("tiny@production").digest == version.digest
    assert plain_on_disk(sealing, SECRET) == []
    digest = version.files["model.safetensors"].removeprefix("sha256:")
    assert not [path for path in sealing.state_dir.rglob("*") if digest[:16] in path.name], (
        "not even its hash"
    )


def test_equal_content_of_two_tenants_has_nothing_in_common(
    vault: Mmodel, make_model: ModelMaker, sealing: Settings
) -> None:
    for tenant in ("red", "blue"):
        vault.of(tenant, "t").register(make_model(weights=SECRET))
    red, blue = (sorted((sealing.state_dir / "sealed" / tenant).glob("??/*")) for tenant in ("red", "blue"))
    assert len(red) == len(blue) == 2
    assert not {path.name for path in red} & {path.name for path in blue}
    assert not {path.read_bytes() for path in red} & {path.read_bytes() for path in blue}


def test_a_runtime_reads_from_memory_and_it_is_gone_afterwards(
    vault: Mmodel, make_model: ModelMaker, sealing: Settings
) -> None:
    version = vault.register(make_model(weights=SECRET))
    folder = vault.blobs.view(vault.tenant, version.digest, version.files)
    assert folder.is_relative_to(sealing.memory_dir)
    assert (folder / "model.safetensors").read_bytes() == safetensors({"w": SECRET})
    assert folder.stat().st_mode & 0o077 == 0
    assert plain_on_disk(sealing, SECRET) == []
    vault.blobs.plain.keep({version.digest})
    assert folder.is_dir()
    vault.blobs.plain.keep(set())
    assert not folder.exists()


def test_what_a_killed_process_opened_is_swept_by_the_next(
    vault: Mmodel, make_model: ModelMaker, sealing: Settings
) -> None:
    version = vault.register(make_model(weights=SECRET))
    code = (
        "import os, sys\nfrom l4_mmodel.api import Mmodel, Settings\n"
        f"m = Mmodel(Settings.load(home={str(sealing.home)!r}, encrypt=True))\nv = m.version('tiny')\n"
        "print(m.blobs.view(m.tenant, v.digest, v.files), flush=True)\nos.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    left = Path(done.stdout.strip())
    assert left.is_dir(), done.stderr
    vault.blobs.plain.sweep()
    assert not left.exists()
    assert vault.verify("tiny").digest == version.digest


def test_a_view_that_another_process_uses_stays(
    vault: Mmodel, make_model: ModelMaker, sealing: Settings
) -> None:
    version = vault.register(make_model(weights=SECRET))
    other = Mmodel(sealing)
    folder = other.blobs.view(vault.tenant, version.digest, version.files)
    vault.blobs.plain.sweep()
    assert folder.is_dir()
    other.close()
    assert not folder.exists()


def test_a_changed_byte_of_sealed_content_is_found(
    vault: Mmodel, make_model: ModelMaker, sealing: Settings
) -> None:
    vault.register(make_model(weights=SECRET))
    largest = max((sealing.state_dir / "sealed").glob("*/??/*"), key=lambda path: path.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.chmod(0o600)
    largest.write_bytes(data)
    with pytest.raises(Failed, match="stored content was changed"):
        vault.verify("tiny")


def test_an_erased_key_takes_the_content_with_it(vault: Mmodel, make_model: ModelMaker) -> None:
    vault.of("red", "t").register(make_model(weights=SECRET))
    vault.register(make_model(weights=SECRET))
    assert vault.blobs.ring is not None
    vault.blobs.ring.erase("red")
    with pytest.raises(Failed, match=r"gone from the store|was changed"):
        vault.of("red", "t").verify("tiny")
    assert vault.verify("tiny").ref == "tiny@1", "other tenants keep theirs"


def test_the_master_key_is_needed_and_must_be_private(
    vault: Mmodel, make_model: ModelMaker, sealing: Settings
) -> None:
    vault.register(make_model(weights=SECRET))
    master = sealing.state_dir / "master.key"
    text = master.read_text()
    assert master.stat().st_mode & 0o777 == 0o600
    master.chmod(0o640)
    with pytest.raises(BadInput, match="others may read"):
        Mmodel(sealing).verify("tiny")
    master.chmod(0o600)
    master.write_text("0" * 64)
    with pytest.raises(Failed, match="does not open"):
        Mmodel(sealing).verify("tiny")
    master.unlink()
    with pytest.raises(Failed, match="master key is gone"):
        Mmodel(sealing).verify("tiny")
    master.write_text(text)
    master.chmod(0o600)
    assert Mmodel(sealing).verify("tiny").ref == "tiny@1"


def test_content_from_before_is_read_and_can_be_sealed(
    settings: Settings, sealing: Settings, make_model: ModelMaker
) -> None:
    Mmodel(settings).register(make_model(weights=SECRET))
    assert plain_on_disk(settings, SECRET)
    vault = Mmodel(sealing)
    assert vault.verify("tiny").ref == "tiny@1"
    assert vault.seal() == 2
    assert plain_on_disk(settings, SECRET) == []
    assert vault.verify("tiny").ref == "tiny@1"
    assert vault.collect() == []
    assert vault.seal() == 0
    with pytest.raises(Failed, match="sealed, and encryption is off"):
        Mmodel(settings).verify("tiny")
    vault.close()


def test_it_is_opened_into_memory_or_not_at_all(
    sealing: Settings, make_model: ModelMaker, tmp_path: Path
) -> None:
    vault = Mmodel(sealing.model_copy(update={"memory_dir": tmp_path}))
    if os.statvfs(tmp_path).f_fsid == os.statvfs("/dev/shm").f_fsid:
        pytest.skip("the temporary folder is a tmpfs itself")
    version = vault.register(make_model(weights=SECRET))
    with pytest.raises(Unavailable, match="no tmpfs"):
        vault.blobs.view(vault.tenant, version.digest, version.files)


def test_a_download_of_sealed_content_answers_ranges(
    sealing: Settings, vault: Mmodel, make_model: ModelMaker
) -> None:
    from fastapi.testclient import TestClient
    from l4_mmodel._kit.tokens import TokenStore
    from l4_mmodel.api import create_app

    vault.of("red", "t").register(make_model(weights=SECRET))
    plain = safetensors({"w": SECRET})
    token = {"authorization": f"Bearer {TokenStore(sealing.tokens_file).create('red', 'red')}"}
    cases = {
        "": (200, plain), "bytes=0-9": (206, plain[:10]), "bytes=100-": (206, plain[100:]),
        "bytes=-7": (206, plain[-7:]), f"bytes={len(plain)}-": (416, b""), "bytes=a-": (200, plain),
    }  # fmt: skip
    with TestClient(create_app(sealing)) as http:
        for wanted, (status, body) in cases.items():
            headers = token | ({"range": wanted} if wanted else {})
            answer = http.get("/hub/tiny/resolve/main/model.safetensors", headers=headers)
            assert (answer.status_code, answer.content) == (status, body), wanted
        head = http.head("/hub/tiny/resolve/main/model.safetensors", headers=token)
        assert (head.headers["content-length"], head.content) == (str(len(plain)), b"")
