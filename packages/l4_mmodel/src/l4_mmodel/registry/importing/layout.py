"""A manifest for a folder in the layout of Hugging Face: what it is, is read from its own files."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from l4_mmodel._kit.documents import digest_of_file
from l4_mmodel._kit.problems import BadInput
from l4_mmodel.registry.manifests import MODEL_SCHEMA
from l4_mmodel.security.formats import inspect
from l4_mmodel.security.tensors import TensorFile

IGNORED = {"model-manifest.json", ".gitattributes", ".gitignore"}
FRONT_MATTER = re.compile(r"\A---\s*\n(.*?)\n---\s*\n", re.DOTALL)
TYPES = (
    ("ForCausalLM", "causal-lm"),
    ("LMHeadModel", "causal-lm"),
    ("ForConditionalGeneration", "causal-lm"),
    ("ForSequenceClassification", "reranker"),
    ("RewardModel", "reward"),
)
"""Endings of architectures; what is none of these and has weights gives embeddings."""


@dataclass
class Layout:
    """A described folder: the manifest, and each file that was left out with the reason."""

    manifest: dict[str, Any]
    left_out: dict[str, str] = field(default_factory=dict)


def describe(
    folder: Path,
    *,
    producer: dict[str, str],
    name: str,
    version: str = "1",
    type_: str | None = None,
    licence: str | None = None,
    base: dict[str, str] | None = None,
) -> Layout:
    """The `model-manifest/v1` of a folder; files that may hold code are left out and named.

    `BadInput` where no weights remain, the licence is told nowhere, or an adapter's base is not given.
    """
    files, weights, left_out = _look_into(folder)
    if not weights:
        refused = next(iter(left_out.items()), None)
        why = f"{refused[0]}: {refused[1]}" if refused else "the folder has no safetensors and no GGUF file"
        raise BadInput("has no weights that may be stored", field=str(folder), why=why,
                       do="export them with save_pretrained(…, safe_serialization=True)")  # fmt: skip
    config = _json(folder / "config.json")
    adapter = _json(folder / "adapter_config.json") if (folder / "adapter_config.json").is_file() else None
    kind = type_ or _type_of(config, adapter, folder, weights)
    if kind == "adapter" and base is None:
        told = (adapter or {}).get("base_model_name_or_path", "its base")
        raise BadInput(f"is an adapter on {told}", field="base", do="say which version: --base NAME@N")
    manifest = {
        "schema": MODEL_SCHEMA,
        "producer": producer,
        "inputs": [],
        "name": name,
        "version": version,
        "type": kind,
        "architecture": _architecture(config, adapter, weights),
        "parameters": sum(found.parameters for found in weights),
        "dtype": str(config.get("dtype") or config.get("torch_dtype") or weights[0].dtype),
        "files": files,
        "licence": licence or _licence(folder, weights),
        **({"base": base} if base else {}),
    }
    return Layout(manifest, left_out)


def _look_into(folder: Path) -> tuple[list[dict[str, Any]], list[TensorFile], dict[str, str]]:
    files, weights, left_out = [], [], {}
    for path in sorted(folder.rglob("*")):
        uri = path.relative_to(folder).as_posix()
        if (
            not path.is_file()
            or path.name in IGNORED
            or any(part.startswith(".") for part in Path(uri).parts)
        ):
            continue
        size = path.stat().st_size
        try:
            with open(path, "rb") as stream:
                found = inspect(stream, size, uri)
        except BadInput as problem:
            if path.suffix in (".safetensors", ".gguf"):
                raise  # broken weights are not left out without a word
            left_out[uri] = problem.what
            continue
        if found is not None:
            weights.append(found)
        files.append({"uri": uri, "sha256": digest_of_file(path), "bytes": size})
    return files, weights, left_out


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        value = json.loads(path.read_bytes())
    except ValueError as error:
        raise BadInput(f"is not JSON: {error}", field=path.name) from error
    return value if isinstance(value, dict) else {}


def _type_of(
    config: dict[str, Any], adapter: dict[str, Any] | None, folder: Path, weights: list[TensorFile]
) -> str:
    if adapter is not None:
        return "adapter"
    if (folder / "modules.json").exists():  # the layout of sentence-transformers
        return "embedding"
    named = config.get("architectures") or [""]
    for ending, kind in TYPES:
        if str(named[0]).endswith(ending):
            return kind
    return "causal-lm" if weights[0].format == "gguf" else "embedding"


def _architecture(config: dict[str, Any], adapter: dict[str, Any] | None, weights: list[TensorFile]) -> str:
    named = config.get("architectures") or [None]
    told = named[0] or (adapter or {}).get("peft_type") or weights[0].metadata.get("general.architecture")
    return str(told or config.get("model_type") or "unknown")


def _licence(folder: Path, weights: list[TensorFile]) -> str:
    """From the card's front matter (`license:`), or a GGUF's own metadata."""
    card = folder / "README.md"
    found = FRONT_MATTER.match(card.read_text("utf-8", "replace")) if card.is_file() else None
    if found is not None:
        try:
            front = yaml.safe_load(found.group(1))
        except yaml.YAMLError:
            front = None
        if isinstance(front, dict) and front.get("license"):
            return str(front["license"])
    told = weights[0].metadata.get("general.license")
    if told:
        return str(told)
    raise BadInput("its licence is told nowhere", field="licence", do="say it: --licence apache-2.0")
