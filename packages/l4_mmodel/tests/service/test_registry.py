"""The registry: whole or not at all, tamper found, nothing referenced ever collected."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from l4_mmodel.api import BadInput, Conflict, Failed, Mmodel, NotFound, Settings
from l4_mmodel.testing import SCHEMA, manifest_digest, safetensors, write_manifest

ModelMaker = Callable[..., Path]


def blobs(settings: Settings) -> list[Path]:
    return sorted((settings.state_dir / "blobs").glob("*/??/*"))


def test_a_model_is_registered_once_and_numbered(mmodel: Mmodel, make_model: ModelMaker) -> None:
    first = mmodel.register(make_model(), tags={"lang": "zh"})
    again = mmodel.register(make_model())
    second = mmodel.register(make_model(weights=b"other"))
    assert (first.ref, again.ref, second.ref) == ("tiny@1", "tiny@1", "tiny@2")
    assert first.digest == manifest_digest(make_model())
    assert mmodel.version("tiny").ref == "tiny@2"
    assert mmodel.version("tiny@1").tags == {"lang": "zh"}
    assert mmodel.version(first.digest).ref == "tiny@1"
    assert mmodel.verify("tiny@1").ref == "tiny@1"


def test_equal_files_are_stored_once_a_tenant_and_never_shared(
    mmodel: Mmodel, make_model: ModelMaker, settings: Settings
) -> None:
    mmodel.register(make_model())
    mmodel.register(make_model(parameters=9))  # another version of the same files
    assert len(blobs(settings)) == 2
    mmodel.of("other", "test").register(make_model())
    assert len(blobs(settings)) == 4
    with pytest.raises(NotFound):
        mmodel.of("third", "test").version("tiny")


@pytest.mark.parametrize(
    ("files", "fields", "fault"),
    [
        ({"model.safetensors": b"\x80\x02}q\x00."}, {}, "pickle"),
        ({"evil.json": b"\x80\x02}q\x00."}, {}, "pickle"),
        ({"modeling_x.py": b"import os\n"}, {}, "refused"),
        ({"model.gguf": b"GGUF" + bytes(60)}, {}, "broken GGUF"),
        ({}, {"type": "adapter", "base": None}, "pin its base"),
        (
            {},
            {"type": "adapter", "base": {"schema": SCHEMA, "digest": "sha256:" + "0" * 64}},
            "not registered",
        ),
        ({}, {"name": "../x"}, "not a name"),
        ({}, {"licence": None}, "licence"),
        ({}, {"schema": "ogai.other/v1"}, "not a document"),
        ({}, {"files": []}, "files"),
    ],
)
def test_what_is_refused_leaves_nothing(
    mmodel: Mmodel,
    make_model: ModelMaker,
    settings: Settings,
    files: dict[str, bytes],
    fields: dict[str, object],
    fault: str,
) -> None:
    with pytest.raises(BadInput, match=fault):
        mmodel.register(make_model(files, **fields))
    assert blobs(settings) == []
    assert mmodel.registry.models(None) == []
    assert list((settings.state_dir / "staging").iterdir()) == []


@pytest.mark.parametrize("uri", ["../secret.json", "/etc/hostname", "link.json", "folder/../../x"])
def test_a_manifest_cannot_reach_outside(
    mmodel: Mmodel, make_model: ModelMaker, settings: Settings, uri: str
) -> None:
    path = make_model()
    secret = path.parent.parent / "secret.json"
    secret.write_text('"secret"')
    (path.parent / "link.json").symlink_to(secret)
    value = json.loads(path.read_text())
    value["files"].append({"uri": uri, "sha256": "sha256:" + "0" * 64, "bytes": 8})
    path.write_text(json.dumps(value))
    with pytest.raises(BadInput):
        mmodel.register(path)
    assert blobs(settings) == []


def test_a_changed_byte_is_found_before_and_after(
    mmodel: Mmodel, make_model: ModelMaker, settings: Settings
) -> None:
    path = make_model()
    weights = path.parent / "model.safetensors"
    good = weights.read_bytes()
    weights.write_bytes(good[:-1] + b"?")
    with pytest.raises(BadInput, match="not what the manifest says"):
        mmodel.register(path)
    weights.write_bytes(good[:-1])
    with pytest.raises(BadInput, match="bytes, the manifest says"):
        mmodel.register(path)
    weights.write_bytes(good)
    version = mmodel.register(path)
    stored = mmodel.blobs.place("default", version.files["model.safetensors"])
    stored.chmod(0o600)
    stored.write_bytes(good[:-1] + b"?")
    for use in (lambda: mmodel.verify("tiny"), lambda: mmodel.plan(version, "x")):
        with pytest.raises(Failed, match=r"model\.safetensors: the stored content was changed"):
            use()


def test_changing_the_source_later_changes_nothing(mmodel: Mmodel, make_model: ModelMaker) -> None:
    path = make_model()
    mmodel.register(path)
    with open(path.parent / "model.safetensors", "r+b") as stream:
        stream.write(b"overwritten in place")
    mmodel.verify("tiny")


def test_an_adapter_pins_its_base_and_protects_it(mmodel: Mmodel, make_model: ModelMaker) -> None:
    base = mmodel.register(make_model())
    adapter = mmodel.register(
        make_model(type="adapter", name="lora", base={"schema": SCHEMA, "digest": base.digest})
    )
    assert adapter.base_digest == base.digest
    with pytest.raises(Conflict, match="adapter"):
        mmodel.delete(base)
    plan = mmodel.plan(adapter, "x")
    assert plan.spec is not None
    assert plan.spec.model == mmodel.blobs.view("default", base.digest, base.files)
    mmodel.delete(adapter)
    mmodel.delete(base)


def test_lineage_is_read_from_digests(mmodel: Mmodel, make_model: ModelMaker) -> None:
    gguf, data, job = ("sha256:" + digit * 64 for digit in "123")
    base = mmodel.register(make_model(derived_from=gguf))
    reference = {"schema": SCHEMA, "digest": base.digest}
    training = {"dataset": data, "job": job, "steps": 5, "metrics": {}}
    adapter = mmodel.register(
        make_model(type="adapter", name="lora", base=reference, inputs=[reference], training=training)
    )
    graph = mmodel.lineage(adapter)
    assert set(graph.edges) == {
        (gguf, base.digest, "converted from"),
        (base.digest, adapter.digest, "base"),
        (data, adapter.digest, "trained with"),
        (job, adapter.digest, "trained with"),
    }
    labels = {node.digest: (node.label, node.known) for node in graph.nodes}
    assert labels[base.digest] == ("tiny@1", True)
    assert labels[data] == ("222222222222", False)
    assert (base.digest, adapter.digest, "base") in mmodel.lineage(base).edges


def test_aliases_move_and_remember(mmodel: Mmodel, make_model: ModelMaker) -> None:
    one = mmodel.register(make_model(), alias="production")
    two = mmodel.register(make_model(weights=b"2"))
    mmodel.alias(two, "production", reason="better")
    assert mmodel.version("tiny@production").ref == "tiny@2"
    history = [(row["alias"], row["number"], row["reason"]) for row in mmodel.alias_history(one)]
    assert history == [("production", 2, "better"), ("production", 1, "at registration")]
    with pytest.raises(Conflict, match="alias production"):
        mmodel.delete(two)
    with pytest.raises(NotFound):
        mmodel.version("tiny@staging")


def test_a_number_is_never_given_twice(mmodel: Mmodel, make_model: ModelMaker) -> None:
    mmodel.delete(mmodel.register(make_model()))
    assert mmodel.register(make_model()).ref == "tiny@2"


def test_collection_takes_only_what_nothing_names(
    mmodel: Mmodel, make_model: ModelMaker, settings: Settings
) -> None:
    mmodel.register(make_model())
    other = mmodel.register(make_model(weights=b"2"))  # shares config.json with the first
    mmodel.plan(other, "x")
    mmodel.delete(other)
    expected = mmodel.collect(dry_run=True)
    assert [size for _, _, size in expected] == [len(safetensors({"w": b"2"}))]
    assert mmodel.collect() == expected
    assert mmodel.collect() == []
    mmodel.verify("tiny@1")
    assert len(blobs(settings)) == 2


def test_every_change_is_in_the_audit_and_a_changed_row_is_found(
    mmodel: Mmodel, make_model: ModelMaker
) -> None:
    mmodel.register(make_model(), alias="production")
    mmodel.keys.create("k")
    actions = [row["action"] for row in mmodel.store.audit_rows("default")]
    assert actions == ["key-create", "alias", "register"]
    assert mmodel.store.broken_audit_row() is None
    with mmodel.store.change() as connection:
        connection.exec_driver_sql("UPDATE l4_audit SET target = 'other' WHERE id = 2")
    assert mmodel.store.broken_audit_row() == 2


OPEN = "import sys; from l4_mmodel.api import *; m = Mmodel(Settings(home=sys.argv[1])); "
REGISTER = OPEN + "m.register(sys.argv[2], alias='a')"
MANY = OPEN + "[m.register(path) for path in sys.argv[2:]]"


@pytest.mark.parametrize("attempt", range(4))
def test_a_kill_in_the_middle_leaves_nothing_or_all(
    tmp_path: Path, settings: Settings, mmodel: Mmodel, attempt: int
) -> None:
    folder = tmp_path / "big"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    for number in range(8):
        (folder / f"part-{number}.safetensors").write_bytes(safetensors({"w": os.urandom(4 << 20)}))
    path = write_manifest(folder)
    process = subprocess.Popen([sys.executable, "-c", REGISTER, str(settings.home), str(path)])
    staging = settings.state_dir / "staging"
    while process.poll() is None and not any(staging.glob("*/*")):
        time.sleep(0.001)
    time.sleep(0.02 * attempt)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = mmodel.registry.all("default")
    if found:
        mmodel.verify(found[0])
    mmodel.collect()
    assert len(blobs(settings)) in (0, 9) if found == [] else len(blobs(settings)) == 9
    assert not any(staging.iterdir())
    version = mmodel.register(path, alias="a")
    mmodel.verify(version)
    assert mmodel.version("tiny@a").digest == version.digest


def test_many_writers_never_lose_or_repeat_a_number(
    mmodel: Mmodel, make_model: ModelMaker, settings: Settings
) -> None:
    paths = [str(make_model(weights=bytes([n]))) for n in range(24)]
    writers = [
        subprocess.Popen([sys.executable, "-c", MANY, str(settings.home), *paths[n::4]]) for n in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert sorted(version.number for version in mmodel.registry.all("default")) == list(range(1, 25))
    assert mmodel.store.broken_audit_row() is None


def test_a_reader_sees_an_alias_before_or_after_never_between(mmodel: Mmodel, make_model: ModelMaker) -> None:
    versions = [mmodel.register(make_model(weights=bytes([n]))) for n in range(2)]
    mmodel.alias(versions[0], "a")
    stop = threading.Event()
    faults: list[Exception] = []

    def read() -> None:
        while not stop.is_set():
            try:
                assert mmodel.version("tiny@a").number in (1, 2)
            except Exception as error:  # noqa: BLE001 (told below)
                faults.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for n in range(30):
        mmodel.alias(versions[n % 2], "a")
    stop.set()
    reader.join()
    assert faults == []


@hypothesis_settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["register", "delete", "collect", "alias"]), st.integers(0, 4)), max_size=12
    )
)
def test_whatever_happens_what_is_listed_can_be_verified(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int]]
) -> None:
    home = tmp_path_factory.mktemp("state")
    mmodel = Mmodel(Settings(home=home))
    for action, number in steps:
        folder = home / f"source-{number}"
        if not folder.exists():
            folder.mkdir()
            (folder / "config.json").write_text(json.dumps({"n": number // 2}))  # pairs share a file
            (folder / "m.safetensors").write_bytes(safetensors({"w": bytes([number])}))
            write_manifest(folder)
        try:
            if action == "register":
                mmodel.register(folder / "model-manifest.json")
            elif action == "delete":
                mmodel.delete(f"tiny@{number + 1}")
            elif action == "alias":
                mmodel.alias(f"tiny@{number + 1}", "a")
            else:
                mmodel.collect()
        except (NotFound, Conflict):
            continue
    for version in mmodel.registry.all("default"):
        mmodel.verify(version)
    assert mmodel.store.broken_audit_row() is None
    mmodel.close()
