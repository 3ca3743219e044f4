"""A warm Python: imports once, then forks ranks that begin where an import-heavy program is slow.

Run by path with the *job's* interpreter, so it uses the standard library alone and knows nothing of
this package.  It talks over the socket whose descriptor is its argument, one JSON message a packet:

    -> {"modules": [...]}                                 <- {"ready": seconds, "threads": n, "failed": {...}}
    -> {"argv": [...], "environment": {...}, "folder": ..., "parent": pid}  with the log's descriptor
                                                          <- {"pid": n}

A rank is forked twice, so that the supervisor (a subreaper) becomes its parent and can wait for it.
No thread may live at the fork; a server started here (a TCPStore) would break the next one.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import time
from typing import Any

_MESSAGE_BYTES = 1 << 20


def warm(modules: list[str]) -> dict[str, str]:
    """Imports the modules; a failing one is reported, not fatal: the rank will meet it again."""
    failed = {}
    for name in modules:
        try:
            importlib.import_module(name)
        except BaseException as error:  # noqa: BLE001 (whatever an import does, the server lives)
            failed[name] = repr(error)
    gc.collect()
    gc.freeze()  # the collector must not touch, and so copy, what is shared
    return failed


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """Answers requests; returns one only in a forked rank, and None when the supervisor has gone."""
    while True:
        message, descriptors, _flags, _address = socket.recv_fds(channel, _MESSAGE_BYTES, 1)
        if not message:
            return None
        request = json.loads(message)
        if "modules" in request:
            begun = time.monotonic()
            failed = warm(request["modules"])
            answer = {"ready": time.monotonic() - begun, "failed": failed}
            answer["threads"] = len(os.listdir("/proc/self/task"))
            channel.send(json.dumps(answer).encode())
            continue
        read, write = os.pipe()
        first = os.fork()
        if first == 0:
            os.close(read)
            rank = os.fork()
            if rank == 0:
                os.close(write)
                channel.close()
                return become_rank(request, descriptors[0])
            os.write(write, str(rank).encode())
            os._exit(0)
        os.close(write)
        os.waitpid(first, 0)
        pid = int(os.read(read, 32))
        os.close(read)
        os.close(descriptors[0])
        channel.send(json.dumps({"pid": pid}).encode())


def become_rank(request: dict[str, Any], log: int) -> dict[str, Any]:
    """Turns this fork into the rank's process: session, parent, environment, descriptors."""
    os.setsid()
    until = time.monotonic() + 5
    while os.getppid() != request["parent"] and time.monotonic() < until:
        time.sleep(0.001)  # until the first fork is gone and the supervisor is the parent
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG
    if os.getppid() != request["parent"]:
        os._exit(137)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True, write_through=True)  # type: ignore[union-attr]
    return request


def run(argv: list[str]) -> None:
    """What `python ARGV…` would do: `-m MODULE args` or `SCRIPT args`."""
    if argv[0] == "-m":
        sys.argv = argv[1:]
        sys.path.insert(0, os.getcwd())  # noqa: PTH109 (this file imports little)
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = argv
        sys.path.insert(0, os.path.dirname(os.path.realpath(argv[0])))  # noqa: PTH120
        runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    del sys.path[0]  # this file's folder is not the program's
    asked = serve(socket.socket(fileno=int(sys.argv[1])))
    if asked is not None:
        run(asked["argv"])
