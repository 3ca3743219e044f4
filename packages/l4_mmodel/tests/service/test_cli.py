"""The command line: its words, its exit codes, its errors."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from l4_mmodel.api import Settings

ModelMaker = Callable[..., Path]
README = Path(__file__).parents[2] / "README.md"


def mmodel(settings: Settings, *words: str, code: int = 0) -> str:
    environment = {"OGAI_HOME": str(settings.home), "PATH": "/usr/bin:/bin"}
    command = [sys.executable, "-m", "l4_mmodel.cli", *words]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def test_a_model_from_register_to_deployment(
    settings: Settings, make_model: ModelMaker, tmp_path: Path
) -> None:
    made = json.loads(mmodel(settings, "register", str(make_model()), "--alias", "production", "--json"))
    assert (made[0]["ref"], made[0]["aliases"]) == ("tiny@1", ["production"])
    assert "tiny@1" in mmodel(settings, "models", "tiny")
    assert json.loads(mmodel(settings, "verify", "tiny@production", "--json"))[0]["ref"] == "tiny@1"
    assert json.loads(mmodel(settings, "lineage", "tiny", "--json"))["nodes"][0]["label"] == "tiny@1"
    assert mmodel(settings, "deploy", "tiny").strip() == "tiny: requested"
    assert json.loads(mmodel(settings, "deployments", "--json"))[0]["state"] == "requested"
    mmodel(settings, "keys", "create", "k", "--out", str(tmp_path / "key"))
    assert (tmp_path / "key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "key").read_text().startswith("sk-ogai-")
    mmodel(settings, "keys", "revoke", "k")
    assert json.loads(mmodel(settings, "audit", "--json"))[0]["action"] == "key-revoke"
    assert "nothing to show" in mmodel(settings, "gc")


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (["register", "none.json"], 2, "no such file"),
        (["verify", "none"], 2, "no version none"),
        (["eval", "none.yaml", "--model", "m"], 2, "no such file"),
        (["promote", "m", "--rule", "fast"], 2, "not a condition"),
        (["deploy", "a/b"], 2, "not a name"),
        (["keys", "create", "Bad Name"], 2, "not a name"),
        (["schema", "x"], 2, "not a document"),
        (["stop", "none"], 2, "no deployment"),
    ],
)
def test_faults_are_one_clear_error(settings: Settings, words: list[str], code: int, part: str) -> None:
    text = mmodel(settings, *words, code=code)
    assert text.startswith("error: ")
    assert part in text


def test_a_pickle_is_refused_with_what_and_what_to_do(settings: Settings, make_model: ModelMaker) -> None:
    path = make_model({"model.safetensors": b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00]\x94."})
    text = mmodel(settings, "register", str(path), code=2)
    assert "model.safetensors: refused: it seems to be a Python pickle" in text
    assert "try: export the weights" in text


def test_a_suite_without_its_runtime_says_what_to_install(
    settings: Settings, make_model: ModelMaker, tmp_path: Path
) -> None:
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    else:
        pytest.skip("torch is installed here")
    mmodel(settings, "register", str(make_model()))
    (tmp_path / "i.jsonl").write_text('{"question": "q", "choices": ["a", "b"], "answer": 0}')
    (tmp_path / "s.yaml").write_text("{name: s, tasks: [{name: t, data: i.jsonl}]}")
    text = mmodel(settings, "eval", str(tmp_path / "s.yaml"), "--model", "tiny", code=3)
    assert "pip install 'l4-mmodel[transformers]'" in text


def test_every_command_of_the_readme_exists() -> None:
    import l4_mmodel.cli  # noqa: F401 (the commands join the application)
    import typer
    from l4_mmodel.cli.common import app

    commands = typer.main.get_command(app)
    blocks = re.findall(r"^```console\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    lines = [
        line.removeprefix("$ ")
        for block in blocks
        for line in block.splitlines()
        if line.startswith("$ mmodel")
    ]
    calls = [part for line in lines for part in re.split(r"[;]|&&", line.partition("  #")[0])]
    assert len(calls) > 20
    for call in calls:
        words = [word for word in shlex.split(call) if word]
        group = commands
        for word in words[1:]:
            if not hasattr(group, "commands"):
                break
            assert word in group.commands, call
            group = group.commands[word]
        options = {name for parameter in group.params for name in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options, call


def test_the_readmes_python_runs() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", README.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        subprocess.run([sys.executable, "-c", block], check=True, timeout=60)
