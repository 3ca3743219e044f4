"""`python -m integration_tests.console --port 8080`: the console on loopback."""

from __future__ import annotations

import argparse
from pathlib import Path

import uvicorn

from integration_tests.console.app import create_console

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--host", default="127.0.0.1")
parser.add_argument("--port", type=int, default=8080)
parser.add_argument("--home", type=Path, help="folder with the layers' state")
options = parser.parse_args()
print(f"console: http://{options.host}:{options.port}/", flush=True)
uvicorn.run(create_console(options.home), host=options.host, port=options.port, log_level="warning")
