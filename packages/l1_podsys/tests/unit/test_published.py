"""What others rely on: the api's size and cost, committed schemas, shipped profiles, roles and modules."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import l1_podsys
import pytest
import yaml
from l1_podsys import api
from l1_podsys._kit.documents import json_schema
from l1_podsys.core.inventory import Inventory
from l1_podsys.core.inventory.reading import parse_as
from l1_podsys.core.planning import Plan, Profile
from l1_podsys.core.planning.desired import ROLES
from l1_podsys.core.tuning import preset_settings
from l1_podsys.documents import ClusterReport
from l1_podsys.profiles import shipped, shipped_names
from l1_podsys.roles import folder

SCHEMAS = Path(l1_podsys.__file__).parent / "schemas"


def test_the_api_is_small_and_every_name_is_there() -> None:
    assert len(api.__all__) <= 30
    for name in api.__all__:
        assert getattr(api, name) is getattr(l1_podsys, name)


def test_importing_the_api_loads_nothing_heavy() -> None:
    program = (
        "import sys, l1_podsys.api; "
        "heavy = {'fastapi', 'pydantic', 'yaml', 'ansible_runner', 'rich', 'typer', 'l0_infra_os'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("name", "model"),
    [("cluster-report-v1", ClusterReport), ("inventory", Inventory), ("profile", Profile), ("plan", Plan)],
)
def test_committed_schemas_are_the_models(name: str, model: type[ClusterReport]) -> None:
    assert (SCHEMAS / f"{name}.json").read_text("utf-8") == json_schema(model)


@pytest.mark.parametrize("name", shipped_names())
def test_shipped_profiles_are_valid(name: str) -> None:
    profile = parse_as(Profile, shipped(name), where=name)
    assert profile.name == name
    if profile.os is not None:
        assert preset_settings(profile.os.tuning)


@pytest.mark.parametrize("role", ROLES)
def test_every_role_of_a_plan_has_its_tasks(role: str) -> None:
    tasks = yaml.safe_load((folder() / role / "tasks" / "main.yml").read_text("utf-8"))
    assert tasks
    assert all("name" in task for task in tasks)
