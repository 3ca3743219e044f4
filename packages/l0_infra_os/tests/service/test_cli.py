"""The command line and the README: what is written there is there, and errors are clear."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main
import typer.testing
from l0_infra_os._kit.problems import BadInput
from l0_infra_os.cli import app, fleet, tenancy
from l0_infra_os.cli.common import Progress, read_keys
from l0_infra_os.cli.lab import _mount

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OGAI_HOME", str(tmp_path))
    return tmp_path


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "l0_infra_os", *words], capture_output=True, text=True)


def readme_commands() -> list[str]:
    blocks = re.findall(r"^```bash\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line.split(" #")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("infra-os ")]


@pytest.mark.skipif(not README.exists(), reason="no README beside the tests")
@pytest.mark.parametrize("line", readme_commands() if README.exists() else [])
def test_the_readmes_commands_parse(line: str) -> None:
    command: Any = typer.main.get_command(app)
    _program, *words = shlex.split(line)
    context = command.make_context("infra-os", words)
    while hasattr(command, "commands"):
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])
        context = command.make_context(name, words, parent=context)
    assert command.callback is not None


@pytest.mark.skipif(not README.exists(), reason="no README beside the tests")
def test_the_readmes_python_runs() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.MULTILINE | re.DOTALL)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("['demo']\n[]\n", "")


def test_an_error_has_an_exit_code_and_no_traceback(environment: Path) -> None:
    done = run("lease", "nobody", "--nodes", "2")
    assert done.returncode == 2
    assert done.stderr.startswith("error: no tenant 'nobody'\n  try: make it: infra-os tenant add nobody")
    as_json = run("lease", "nobody", "--nodes", "2", "--json")
    assert json.loads(as_json.stderr)["type"] == "urn:ogai:problem:notfound"


def test_tables_and_json(environment: Path) -> None:
    runner = typer.testing.CliRunner()
    assert runner.invoke(app, ["tenant", "add", "demo", "--quota", "3"]).exit_code == 0
    rows = json.loads(runner.invoke(app, ["tenant", "list", "--json"]).stdout)
    assert [(row["name"], row["quota_nodes"]) for row in rows] == [("demo", 3)]
    for words in (["nodes"], ["leases"], ["meter"], ["audit"], ["image", "list"], ["token", "list"]):
        done = runner.invoke(app, [*words, "--json"])
        assert done.exit_code == 0, done.output
        assert isinstance(json.loads(done.stdout), list)
    assert runner.invoke(app, ["tenant", "remove", "demo"]).exit_code == 0


def test_a_token_is_printed_once_and_never_listed(environment: Path) -> None:
    runner = typer.testing.CliRunner()
    token = runner.invoke(app, ["token", "create", "ci", "--tenant", "demo"]).stdout.strip()
    assert token.startswith("ogai-")
    assert token not in runner.invoke(app, ["token", "list", "--json"]).stdout
    assert token not in (environment / "tokens.json").read_text()
    assert runner.invoke(app, ["token", "revoke", "ci"]).exit_code == 0


def test_the_schema_and_the_version_are_printed() -> None:
    runner = typer.testing.CliRunner()
    schema = json.loads(runner.invoke(app, ["schema", "node-inventory"]).stdout)
    assert schema["properties"]["schema"]
    assert runner.invoke(app, ["--version"]).stdout == "infra-os 0.1.0\n"
    assert "OGAI_L0_" in run("config", "show", "--json").stdout or run("config", "show").returncode == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("just text", "is not a list of machines"),
        ("- name: x", "has no bmc"),
        ("- {bmc: 'h:1', colour: red}", "has unknown fields: colour"),
        ("- {bmc: 'h:1', macs: [1]}", "macs is not a list of texts"),
        ("[", "cannot be read"),
    ],
)
def test_a_broken_inventory_file_names_the_place(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "machines.yaml"
    file.write_text(text)
    with pytest.raises(BadInput, match=message) as caught:
        fleet._machines(file)
    assert str(file) in str(caught.value.field)


def test_an_inventory_file_becomes_declared_machines(tmp_path: Path) -> None:
    file = tmp_path / "machines.yaml"
    file.write_text("- {bmc: 'h:1', name: n1, macs: ['02:00:00:00:00:01'], rack: r1}\n- bmc: h:2\n")
    one, two = fleet._machines(file)
    assert (one.name, one.macs, one.rack, one.leaf) == ("n1", ("02:00:00:00:00:01",), "r1", "")
    assert two.address == "h:2"


def test_a_private_key_is_refused_by_name(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("-----BEGIN OPENSSH PRIVATE KEY-----\n")
    with pytest.raises(BadInput) as caught:
        read_keys([key])
    assert caught.value.do == f"give {key}.pub"
    key.write_text("# comment\nssh-ed25519 AAAA me\n\n")
    assert read_keys([key]) == ["ssh-ed25519 AAAA me"]


@pytest.mark.parametrize(
    ("text", "mount"),
    [("/a", ("/a", "ro", "/a")), ("/a:/b", ("/a", "ro", "/b")), ("/a:/b:rw", ("/a", "rw", "/b"))],
)
def test_mounts(text: str, mount: tuple[str, str, str]) -> None:
    assert _mount(text) == mount


def test_progress_says_a_thing_once(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    for _ in range(3):
        progress([])
    Progress(quiet=True)([])
    assert capsys.readouterr().err.count("\n") <= 1


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("tenant add a --quota 99999999999999999999", "quota_nodes: must be 0 to 1000000"),
        ("audit --last 99999999999999999999", "--last"),
        ("meter --since nan", "since: is no moment"),
        ("serve --port 99999", "--port"),
        ("image add x {chinese}", "chinese is not compressed by zstd"),
        ("token create a --tenant demo --role boss", "role: 'boss' is not one of user"),
        ("provision lease-1 --image debian --ssh-key {empty}", "holds no public key"),
        ("enroll 127.0.0.1:1 -u admin --password-file {empty}", "password: is empty"),
        ("enroll 127.0.0.1:1 -u admin --password-file {binary}", "binary: holds no text"),
        ("enroll 127.0.0.1:1 -u admin --password-file {chinese}", "password: is not one line"),
        ("enroll -u admin --password-file {chinese} --file {deep}", "deep: cannot be read"),
        ("enroll -u admin --password-file {chinese} --file {leaf}", "name, leaf or rack is not a text"),
    ],
)
def test_bad_input_is_told_in_words(environment: Path, words: str, told: str) -> None:
    contents = {
        "empty": b"",
        "binary": b"\xff\xfe",
        "chinese": "密码".encode(),
        "deep": b"[" * 5000,
        "leaf": b"- {bmc: a, leaf: [1]}",
    }
    files = {name: environment / name for name in contents}
    for name, content in contents.items():
        files[name].write_bytes(content)
    done = run(*words.format(**files).split())
    assert done.returncode == 2, done.stderr
    assert told in done.stderr
    assert "Traceback" not in done.stderr
    assert "密码" not in done.stderr


def test_a_plan_tells_equal_steps_once(capsys: pytest.CaptureFixture[str]) -> None:
    row = {
        "role": "member",
        "state": "leased",
        "image": "debian sha256:0",
        "addresses": {"compute": "10.0.0.1/20"},
    }
    rows = [{**row, "node": name, "steps": ["erase", "write"]} for name in ("m1", "m2")]
    tenancy._show_plan([*rows, {**row, "node": "m3", "steps": []}], "debian")
    shown = capsys.readouterr().out
    assert "m1, m2: \n  1. erase\n  2. write\n" in shown
    assert "m3: nothing to do" in shown
    assert "{" not in shown
