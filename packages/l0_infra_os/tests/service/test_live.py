"""The live page: a change reaches a browser that listens."""

from __future__ import annotations

import urllib.request
from typing import Any

from l0_infra_os._kit.tokens import TokenStore
from l0_infra_os.api import InfraOs, Settings, create_app
from l0_infra_os.testing import MemoryFabric
from l0_infra_os.web.serving import HttpThread


def next_event(stream: Any) -> str:
    lines = []
    while line := stream.readline().decode().strip():
        lines.append(line)
    return str(lines[0])


def test_a_change_is_told(l0_settings: Settings, infra: InfraOs) -> None:
    app = create_app(l0_settings, carry_on=False, given_fabric=MemoryFabric())
    server = HttpThread(app, "127.0.0.1", 0)
    server.start()
    try:
        token = TokenStore(l0_settings.tokens_file).admin_token()
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.port}/api/v1/events", headers={"Authorization": f"Bearer {token}"}
        )
        with urllib.request.urlopen(request, timeout=20) as stream:
            assert stream.headers["content-type"].startswith("text/event-stream")
            assert next_event(stream) == "event: change"
    finally:
        server.stop()
