"""schemathesis: whatever the OpenAPI document allows is answered as it says, never with a 500."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from l0_infra_os._kit.tokens import TokenStore
from l0_infra_os.api import Settings, create_app
from l0_infra_os.testing import MemoryFabric

schemathesis = pytest.importorskip("schemathesis")
schemathesis.checks.load_all_checks()

HOME = tempfile.TemporaryDirectory(prefix="l0-rest-")
CONFIG = Settings(home=Path(HOME.name), lab_dir=Path(HOME.name), bmc_timeout_s=0.2)
APP = create_app(CONFIG, carry_on=False, given_fabric=MemoryFabric())
TOKEN = TokenStore(CONFIG.tokens_file).admin_token()
#: FastAPI answers a method that a path lacks with the methods of one of its routes only (an
#: incomplete Allow header): the check of that is not among these.
CHECKS = (
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
)
#: A stream without end, and addresses that are really connected to, have tests of their own.
schema = schemathesis.openapi.from_asgi("/openapi.json", APP).exclude(path_regex="/events|/enroll")


@schema.parametrize()
@settings(
    max_examples=50 if os.environ.get("OGAI_SOAK") == "1" else 5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_answers_are_as_documented(case: Any) -> None:
    case.call_and_validate(headers={"Authorization": f"Bearer {TOKEN}"}, checks=CHECKS)
