"""`ylink model`: bring models in, look at them."""

from __future__ import annotations

from pathlib import Path

import typer

from l3_ylink._kit.command_line import err, new_app, out, show, show_json
from l3_ylink._kit.problems import BadInput
from l3_ylink.settings import Settings

app = new_app("Models as folders of safetensors with a manifest.")

JSON = typer.Option(False, "--json", help="print JSON")


@app.callback()
def model() -> None:
    """Models as folders of safetensors with a manifest."""


@app.command("import-gguf")
def import_gguf(
    file: Path | None = typer.Argument(None, help="the GGUF file"),
    package: str | None = typer.Option(None, help="instead: an installed Python package that carries one"),
    out_folder: Path = typer.Option(..., "--out", help="folder for the model"),
    name: str | None = typer.Option(None, help="the model's name; default: the file's"),
    licence: str | None = typer.Option(None, help="SPDX name; default: what the file says"),
    dtype: str = typer.Option("float32", help="float32, bfloat16 or float16"),
    as_json: bool = JSON,
) -> None:
    """De-quantises a GGUF file to safetensors, once: later imports of it take the cached files."""
    from l3_ylink.models import gguf

    if (file is None) == (package is None):
        raise BadInput("give a file or --package, one of them", field="file")
    source = file if file is not None else gguf.find_in_package(str(package))
    with err.status(f"reading {source.name}", spinner="dots"):
        manifest = gguf.import_gguf(
            source,
            out_folder,
            name=name,
            licence=licence,
            dtype=dtype,
            cache=Settings.load().state_dir / "cache" / "models",
        )
    if as_json:
        show_json({"manifest": manifest.as_json(), "digest": manifest.digest()})
        return
    out.print(f"{manifest.name}: {manifest.parameters:,} parameters, {manifest.dtype}, {manifest.licence}")
    out.print(f"manifest {out_folder / 'model-manifest.json'}  {manifest.digest()}", soft_wrap=True)


@app.command("show")
def show_model(
    folder: Path = typer.Argument(help="a model's folder, or its manifest"), as_json: bool = JSON
) -> None:
    """Checks every file against the manifest and shows what the model is."""
    from l3_ylink.models.manifest import read_model

    _folder, manifest = read_model(folder)
    if as_json:
        show_json({"manifest": manifest.as_json(), "digest": manifest.digest()})
        return
    out.print(
        f"{manifest.name} ({manifest.type}): {manifest.architecture}, {manifest.parameters:,} parameters"
    )
    out.print(f"licence {manifest.licence}, digest {manifest.digest()}", soft_wrap=True)
    show([entry.model_dump() for entry in manifest.files], ("uri", "bytes", "sha256"), as_json=False)
