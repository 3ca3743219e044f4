"""The process of a llama.cpp runtime for GGUF: `python -m l4_mmodel.serving.runtimes.llamacpp_server`."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path

from .supervised import die_with_parent


def main() -> None:
    """Serves the model that the arguments name on a Unix socket, by llama.cpp's own server."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--socket", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--name", required=True)
    parser.add_argument("--context", type=int, default=8192)
    parser.add_argument("--slots", type=int, default=4)
    parser.add_argument("--parent", type=int, required=True)
    options = parser.parse_args()
    die_with_parent(options.parent)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    os.umask(0o077)
    options.socket.unlink(missing_ok=True)
    from xllamacpp import CommonParams, Server

    params = CommonParams()
    params.model.path = str(options.model)
    params.model_alias = {options.name}
    params.hostnames = [str(options.socket)]
    params.n_parallel = options.slots
    params.n_ctx = options.context
    # More threads than free cores spin-wait: measured twelve times slower on a busy machine.
    params.cpuparams.n_threads = 1
    params.cpuparams_batch.n_threads = 1
    # What a request leaves out is as OpenAI's API defines it, not llama.cpp's own taste.
    sampling = params.sampling
    sampling.temp, sampling.top_p, sampling.top_k, sampling.min_p = 1.0, 1.0, 0, 0.0
    server = Server(params)
    stopped.wait()
    del server


if __name__ == "__main__":
    main()
