"""The process of a transformers runtime: `python -m l4_mmodel.serving.runtimes.transformers_server`."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from .supervised import die_with_parent, serve


def main() -> None:
    """Loads the model that the arguments name and serves it on a Unix socket."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--adapters", type=json.loads, default={}, help="JSON: name → folder")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent)
    os.environ |= {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "TOKENIZERS_PARALLELISM": "false",
    }
    # Threads that wait must sleep: spinning ones take the cores from whatever else runs.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from transformers.utils import logging as transformers_logging

    from .engine import Engine
    from .transformers_app import TransformersApp

    transformers_logging.disable_progress_bar()
    engine = Engine(options.model, threads=options.threads, dtype=options.dtype, context=options.context)
    for name, folder in options.adapters.items():
        engine.load_adapter(name, Path(folder))
    serve(TransformersApp(engine), options.socket)


if __name__ == "__main__":
    main()
