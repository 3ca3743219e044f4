"""Copies of a rank's memory on a node of another fault domain, over TCP between the writers.

A request is one line of JSON, then bytes: `put` (kept here), `get` (given back).  The token is the run's,
new for each attempt; a request without it is closed without a word.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socket
import socketserver
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .segment import Content, Segment

_TIMEOUT_S = 60.0
_LONGEST_HEAD = 4096
_MOST_BYTES = 1 << 42


def partner(rank: int, domains: Sequence[str]) -> int | None:
    """The rank that keeps this one's replica: at the same place in the next fault domain, None with one.

    `domains`: the fault domain (node, or rack) of each rank.
    """
    order = list(dict.fromkeys(domains))
    if len(order) < 2:
        return None
    mine = [other for other, domain in enumerate(domains) if domain == domains[rank]]
    following = order[(order.index(domains[rank]) + 1) % len(order)]
    theirs = [other for other, domain in enumerate(domains) if domain == following]
    return theirs[mine.index(rank) % len(theirs)]


class ReplicaServer:
    """Keeps what peers send, in memory, and gives it back."""

    def __init__(self, memory: Path, run: str, token: str, host: str = "") -> None:
        self._memory, self._run, self._token = memory, run, token
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = _TIMEOUT_S

            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                    outer.answer(self.rfile, self.wfile)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = True

        self._server = Server((host, 0), Handler)
        self.port = int(self._server.server_address[1])

    def start(self) -> None:
        """Serves in a thread of its own."""
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Closes the port."""
        self._server.shutdown()
        self._server.server_close()

    def answer(self, source: Any, target: Any) -> None:
        """One request."""
        head = json.loads(source.readline(_LONGEST_HEAD))
        if not hmac.compare_digest(str(head["token"]), self._token) or head["run"] != self._run:
            return
        rank = int(head["rank"])
        if head["do"] == "put":
            size = int(head["size"])
            if not 0 <= size < _MOST_BYTES:
                return
            raw = bytearray(size)
            _fill(source, memoryview(raw))
            segment = Segment(self._memory, self._run, rank, "replica")
            try:
                step, attempt, world = (int(head[name]) for name in ("step", "attempt", "world"))
                segment.store(memoryview(raw), Content(step, attempt, world, size, slot=0))
            finally:
                segment.close()
            target.write(b'{"ok": true}\n')
        elif head["do"] == "get":
            self._give(rank, int(head["step"]), int(head["attempt"]), target)

    def _give(self, rank: int, step: int, attempt: int, target: Any) -> None:
        for kind in ("replica", "own"):
            segment = Segment(self._memory, self._run, rank, kind)
            slots = [one.slot for one in segment.contents() if (one.step, one.attempt) == (step, attempt)]
            if slots:
                with segment.reading(slots[0]) as (content, raw):
                    target.write(json.dumps({"size": content.size}).encode() + b"\n")
                    target.write(raw)
                return


def send(peer: tuple[str, int], token: str, run: str, rank: int, content: Content, raw: memoryview) -> None:
    """Gives a peer a replica.  OSError where it does not take it."""
    head = {
        "do": "put",
        "token": token,
        "run": run,
        "rank": rank,
        "step": content.step,
        "attempt": content.attempt,
        "world": content.world,
        "size": content.size,
    }
    with socket.create_connection(peer, _TIMEOUT_S) as link, link.makefile("rb") as answers:
        link.sendall(json.dumps(head).encode() + b"\n")
        link.sendall(raw)
        if not answers.readline(_LONGEST_HEAD):
            raise ConnectionError("the peer did not take it")


def fetch(peer: tuple[str, int], token: str, run: str, rank: int, key: tuple[int, int]) -> bytearray:
    """Takes a rank's bytes of a (step, attempt) from a peer.  OSError where it does not have them."""
    step, attempt = key
    head = {"do": "get", "token": token, "run": run, "rank": rank, "step": step, "attempt": attempt}
    with socket.create_connection(peer, _TIMEOUT_S) as link, link.makefile("rb") as answers:
        link.sendall(json.dumps(head).encode() + b"\n")
        line = answers.readline(_LONGEST_HEAD)
        if not line:
            raise ConnectionError(f"the peer has no step {step} of rank {rank}")
        raw = bytearray(int(json.loads(line)["size"]))
        _fill(answers, memoryview(raw))
        return raw


def _fill(source: Any, target: memoryview) -> None:
    done = 0
    while done < len(target):
        count = source.readinto(target[done:])
        if not count:
            raise ConnectionError("the peer went away")
        done += count
