"""The command line: clear errors with their exit code, no traceback, JSON where it is asked for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from l1_podsys.api import Settings

HOST = "{id: n1, hostname: n1, address: 127.0.0.1}"


def podsys(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = "import sys; from l1_podsys.cli import main; sys.argv[0] = 'podsys'; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, cwd=cwd, check=False
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


TWIN = "{{id: n{0}, hostname: n{0}, address: 10.0.0.{0}, nics: [{{name: e, mac: '02:00:00:00:00:01'}}]}}"
BAD = [
    ("two equal MACs", f"hosts: [{TWIN.format(1)}, {TWIN.format(2)}]", "hosts.1.nics.0.mac"),
    ("an unknown field", "hosts: [{id: a, hostname: a, addrss: 10.0.0.1}]", "hosts.0.addrss"),
    ("an unknown profile", f"profile: none-such\nhosts: [{HOST}]", "profile"),
    ("no key file", f"ssh: {{key: /no/such/key}}\nhosts: [{HOST}]", "ssh.key"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "field"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_bad_input_is_told_with_its_field_and_exit_2(
    text: str, field: str, tmp_path: Path, settings: Settings
) -> None:
    if shutil.which("ssh") is None and field == "ssh.key":
        pytest.skip("needs ssh")
    file = write(tmp_path / "inventory.yaml", text)
    done = podsys("plan", file, cwd=tmp_path)
    assert done.returncode == 2
    assert field in done.stderr
    as_json = podsys("plan", file, "--json", cwd=tmp_path)
    assert json.loads(as_json.stderr)["field"].endswith(field)
    assert not (tmp_path / ".podsys").exists(), "nothing half-done"


def test_a_host_that_does_not_answer_is_exit_3_and_in_the_plan(tmp_path: Path, settings: Settings) -> None:
    if shutil.which("ssh") is None:
        pytest.skip("needs ssh")
    text = f"profile: base\nssh: {{port: 1}}\nhosts: [{HOST}]"
    done = podsys("plan", write(tmp_path / "inventory.yaml", text), cwd=tmp_path)
    assert done.returncode == 3
    assert "cannot log in to n1 (root@127.0.0.1:1)" in done.stderr
    plan = json.loads((tmp_path / ".podsys" / "plan.json").read_text())
    assert "cannot log in" in plan["hosts"][0]["error"]


def test_apply_without_a_plan_says_what_to_do(tmp_path: Path, settings: Settings) -> None:
    done = podsys("apply", cwd=tmp_path)
    assert done.returncode == 2
    assert ".podsys/plan.json: there is no plan here\n  try: make one: podsys plan" in done.stderr


def test_diagnose(tmp_path: Path, settings: Settings) -> None:
    log = write(tmp_path / "kern.log", "[1] NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.\n")
    done = podsys("diagnose", log, "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert json.loads(done.stdout)[0]["fault"] == "gpu-off-bus"
    quiet = podsys("diagnose", write(tmp_path / "ok.log", "all is well\n"), cwd=tmp_path)
    assert (quiet.returncode, quiet.stdout) == (0, "no known fault found\n")
    for name in ("empty.log", "absent.log"):
        if name == "empty.log":
            write(tmp_path / name, "")
        assert podsys("diagnose", name, cwd=tmp_path).returncode == 2


def test_compat(tmp_path: Path, settings: Settings) -> None:
    done = podsys("compat", "driver=530.41.03", "fabricmanager=530.30.02", "--json", cwd=tmp_path)
    assert done.returncode == 1
    assert set(json.loads(done.stdout)["conflict"]) == {"driver", "fabricmanager"}
    assert podsys("compat", "driver", cwd=tmp_path).returncode == 2
    assert podsys("compat", "driver=580.173.02", cwd=tmp_path).returncode == 0


def test_import_writes_an_inventory_that_plan_reads(tmp_path: Path, settings: Settings) -> None:
    node = {
        "id": "m1", "hostname": "m1", "serial": "s", "location": {"leaf": "l", "rack": "r"},
        "addresses": {"management": "127.0.0.1"}, "ssh_user": "root", "ssh_port": 1,
    }  # fmt: skip
    document = {"schema": "ogai.node-inventory/v1", "tenant": "demo", "nodes": [node]}
    file = write(tmp_path / "nodes.json", json.dumps(document))
    key = write(tmp_path / "key", "")
    done = podsys(
        "import", file, "--ssh-key", key, "--profile", "base", "--shared-path", "/srv", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "1 hosts of cluster demo" in done.stdout
    text = (tmp_path / "inventory.yaml").read_text()
    assert f"key: {key}" in text
    assert "shared_path: /srv" in text
    assert podsys("import", cwd=tmp_path).returncode == 2


def test_schemas_and_settings(tmp_path: Path, settings: Settings) -> None:
    assert set(json.loads(podsys("schema", cwd=tmp_path).stdout)) == {
        "cluster-report",
        "inventory",
        "profile",
        "plan",
    }
    assert podsys("schema", "nothing", cwd=tmp_path).returncode == 2
    rows = json.loads(podsys("config", "show", "--json", cwd=tmp_path).stdout)
    assert {row["name"]: row["source"] for row in rows}["home"] == "environment OGAI_HOME"
    assert podsys("--version", cwd=tmp_path).stdout.strip() == "0.1.0"


def test_tokens(tmp_path: Path, settings: Settings) -> None:
    token = podsys("token", "create", "ann", "--tenant", "red", cwd=tmp_path).stdout.strip()
    assert token.startswith("ogai-")
    listed = podsys("token", "list", "--json", cwd=tmp_path).stdout
    assert {"name": "ann", "tenant": "red", "role": "user"} in json.loads(listed)
    assert token not in listed
    assert podsys("token", "revoke", "ann", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["compat", "driver=中"], "driver: '中' is not a version"),
        (["compat", "driver=580.1", "driver=570.1"], "driver: is given twice: 580.1 and 570.1"),
    ],
)
def test_what_cannot_be_meant_is_told(
    words: list[str], told: str, tmp_path: Path, settings: Settings
) -> None:
    done = podsys(*words, cwd=tmp_path)
    assert done.returncode == 2
    assert told in done.stderr
