"""Model shapes: by preset name, or from a YAML file."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import yaml

from l3_ylink._kit.documents import validated
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import ModelShape


def preset_names() -> list[str]:
    """The shapes that are shipped."""
    folder = files(__package__) / "shapes"
    return sorted(
        entry.name.removesuffix(".yaml") for entry in folder.iterdir() if entry.name.endswith(".yaml")
    )


def read_shape(source: str) -> ModelShape:
    """A preset's name, or a YAML file with a shape's fields; heads must divide what they share."""
    if source in preset_names():
        text = (files(__package__) / "shapes" / f"{source}.yaml").read_text("utf-8")
    else:
        text = _read(Path(source))
    try:
        value = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"is not valid YAML: {error}", field=source) from error
    return checked(validated(ModelShape, value, where=source))


def checked(shape: ModelShape) -> ModelShape:
    """`shape`, or a `BadInput` that names the division that does not come out even."""
    if shape.hidden % shape.heads:
        raise BadInput(
            f"hidden {shape.hidden} / {shape.heads} heads = {shape.hidden / shape.heads:.2f}: not whole",
            field="heads",
            do=f"take a divisor of {shape.hidden}",
        )
    if shape.hidden // shape.heads % 2:
        raise BadInput(
            f"a head of {shape.hidden // shape.heads} has no pairs for the rotary embedding",
            field="heads",
            do="choose heads so that hidden / heads is even",
        )
    if shape.heads % shape.kv_heads:
        raise BadInput(
            f"{shape.heads} heads cannot share {shape.kv_heads} key/value heads evenly",
            field="kv_heads",
            do=f"take a divisor of {shape.heads}",
        )
    return shape


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError as error:
        presets = ", ".join(preset_names())
        raise BadInput("no such file or preset", field=str(path), do=f"presets: {presets}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot be read: {error}", field=str(path)) from error
