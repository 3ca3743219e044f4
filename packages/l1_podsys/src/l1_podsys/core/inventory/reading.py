"""Between an inventory (or a profile) and its YAML text."""

from __future__ import annotations

import difflib
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from l1_podsys._kit.documents import describe, first_field
from l1_podsys._kit.problems import BadInput

from .lint import lint
from .model import Inventory

M = TypeVar("M", bound=BaseModel)


class _StrictLoader(yaml.SafeLoader):
    """SafeLoader that refuses a key given twice: plain YAML would keep the last one silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str | int) and key in seen:
                line = key_node.start_mark.line + 1
                raise BadInput(f"is given twice (line {line})", field=str(key), do="keep one of them")
            seen.add(key if isinstance(key, str | int) else repr(key))
        return super().construct_mapping(node, deep)


def parse(text: str, *, where: str = "inventory") -> Inventory:
    """The inventory of a YAML text, linted; a `BadInput` names the field at fault."""
    inventory = parse_as(Inventory, text, where=where)
    lint(inventory)
    return inventory


def parse_as(model: type[M], text: str, *, where: str) -> M:
    """A YAML mapping as `model`; errors name the field, and the likely one for an unknown name."""
    try:
        value = yaml.load(text, Loader=_StrictLoader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise BadInput(f"is not valid YAML: {' '.join(str(error).split())}", field=where) from error
    if not isinstance(value, dict):
        raise BadInput("holds no mapping", field=where, do="see `podsys schema` for the fields")
    try:
        return model.model_validate(value)
    except ValidationError as error:
        for item in error.errors(include_url=False):
            # A misspelt field is often also a missing one: the slip itself is what to tell.
            if item["type"] == "extra_forbidden":
                raise _unknown_field(model, item["loc"], where) from error
        raise BadInput(f"{where}: {describe(error)}", field=first_field(error)) from error


def _unknown_field(model: type[BaseModel], place: tuple[int | str, ...], where: str) -> BadInput:
    """The error for a field that nobody reads, with the name that was probably meant."""
    known = sorted(_field_names(model.model_json_schema(), set()))
    near = difflib.get_close_matches(str(place[-1]), known, n=1)
    advice = f"did you mean {near[0]!r}?" if near else "remove it; `podsys schema` lists the fields"
    return BadInput(f"{where}: unknown field", field=".".join(map(str, place)), do=advice)


def _field_names(schema: Any, names: set[str]) -> set[str]:
    """Every property name in a JSON Schema."""
    if isinstance(schema, dict):
        properties = schema.get("properties", {})
        names.update(properties if isinstance(properties, dict) else ())
        for value in schema.values():
            _field_names(value, names)
    elif isinstance(schema, list):
        for value in schema:
            _field_names(value, names)
    return names


def to_yaml(inventory: Inventory) -> str:
    """The YAML text of an inventory, without fields that hold their default."""
    value = inventory.model_dump(mode="json", by_alias=True, exclude_defaults=True, exclude_none=True)
    value = {"cluster": inventory.cluster, **value}
    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=110)
