"""Documents of every released version: the owner reads them, and their digests never change."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

FOLDER = Path(__file__).parent
OWNERS = {
    "ogai.node-inventory/v1": "l0_infra_os",
    "ogai.cluster-report/v1": "l1_podsys",
    "ogai.job-spec/v1": "l2_aistation",
    "ogai.job-record/v1": "l2_aistation",
    "ogai.dataset-manifest/v1": "l3_ylink",
    "ogai.parallel-plan/v1": "l3_ylink",
    "ogai.model-manifest/v1": "l3_ylink",
    "ogai.eval-report/v1": "l4_mmodel",
    "ogai.deployment/v1": "l4_mmodel",
}
#: The digests as first computed: a change of the canonical form or of a default would show here.
DIGESTS: dict[str, str] = json.loads((FOLDER / "digests.json").read_text())
GOLDEN = sorted(FOLDER.glob("v*/*.json"))


def owner_model(schema: str) -> Any:
    """The class whose SCHEMA is `schema`, from its owner's documents module."""
    module = importlib.import_module(f"{OWNERS[schema]}.documents")
    return next(kind for kind in vars(module).values() if getattr(kind, "SCHEMA", None) == schema)


def test_every_document_has_a_golden_one() -> None:
    assert {json.loads(path.read_text())["schema"] for path in GOLDEN} == set(OWNERS)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_owner_reads_it_and_gives_the_same_digest(path: Path) -> None:
    value = json.loads(path.read_text())
    document = owner_model(value["schema"]).read(path)
    assert document.as_json() == value
    assert document.digest() == DIGESTS[f"{path.parent.name}/{path.stem}"]


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_it_is_valid_against_the_committed_json_schema(path: Path) -> None:
    value = json.loads(path.read_text())
    name, _, version = value["schema"].removeprefix("ogai.").partition("/")
    package = Path(str(importlib.import_module(OWNERS[value["schema"]]).__file__)).parent
    schema = json.loads((package / "schemas" / f"{name}-{version}.json").read_text())
    jsonschema.validate(value, schema)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_an_unknown_field_is_refused_by_name(path: Path) -> None:
    value = json.loads(path.read_text()) | {"colour": "blue"}
    with pytest.raises(Exception, match="colour"):
        owner_model(value["schema"]).parse(value)
