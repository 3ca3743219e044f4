"""Whatever the published schema allows, and more, is answered without a server error."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import HealthCheck, settings
from l2_aistation._kit.tokens import TokenStore
from l2_aistation.settings import Settings
from l2_aistation.web import create_app

schemathesis = pytest.importorskip("schemathesis")

STREAMS = ("/api/v1/watch", "/api/v1/jobs/{job}/watch")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The application on a port of its own, and the operator's token."""
    options = Settings.load(home=Path(tmp_path_factory.mktemp("schema")))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        server = uvicorn.Server(uvicorn.Config(create_app(options), log_level="error", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}", TokenStore(options.tokens_file).admin_token()
        server.should_exit = True
        thread.join()


published = create_app(Settings(home=Path("nowhere"))).openapi()
schema = schemathesis.openapi.from_dict(published).exclude(path=list(STREAMS))


@schema.parametrize()
@settings(
    max_examples=50 if os.environ.get("OGAI_SOAK") == "1" else 5,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
def test_no_request_breaks_the_service(case: Any, running: tuple[str, str]) -> None:
    answer = case.call(base_url=running[0], headers={"Authorization": f"Bearer {running[1]}"})
    case.validate_response(answer, checks=(schemathesis.checks.not_a_server_error,))
