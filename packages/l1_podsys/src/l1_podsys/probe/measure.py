"""Measures one host: sent over SSH, standard library only, driven by JSON lines on stdin.

Each line {"do": NAME, …} is answered by one JSON line, so that one SSH session serves a whole
verification.  Rates of CPU and memory are per second of CPU time: neighbours that share the cores
do not change them.  Nothing is left behind.
"""

# ruff: noqa: UP035

from __future__ import annotations

import hashlib
import json
import os
import socket
import statistics
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Dict

Order = Dict[str, Any]  # noqa: UP006 (evaluated at run time, on old Pythons too)
LISTENERS: dict[int, socket.socket] = {}
BLOCK = 1 << 17


def cpu(order: Order) -> Order:
    """SHA-256 of one core, in MB (10^6 bytes) per CPU second: fixed work, best of `rounds`."""
    data, rates = b"\x5a" * (1 << 20), []
    hashlib.sha256(data).digest()
    for _ in range(order.get("rounds", 3)):
        start, count = time.thread_time(), 0
        while time.thread_time() - start < order.get("seconds", 0.1):
            hashlib.sha256(data).digest()
            count += 1
        rates.append(count * len(data) / 1e6 / (time.thread_time() - start))
    return {"mb_per_s": max(rates), "rounds": rates}


def memory(order: Order) -> Order:
    """Copying of one core, in GB (10^9 bytes read and written) per CPU second, beyond the caches."""
    size = order.get("bytes", 64 << 20)
    source, target, rates = bytearray(size), bytearray(size), []
    view = memoryview(source)
    target[:] = view
    for _ in range(order.get("rounds", 3)):
        start = time.thread_time()
        target[:] = view
        rates.append(2 * size / 1e9 / max(time.thread_time() - start, 1e-9))
    return {"gb_per_s": max(rates), "rounds": rates}


def disk(order: Order) -> Order:
    """Sequential write with fsync and the latency of a small fsynced write, in the given folder."""
    size = order.get("bytes", 16 << 20)
    folder = order.get("folder", "/var/tmp")  # noqa: S108 (a random name in it)
    with tempfile.TemporaryFile(dir=folder, buffering=0) as stream:
        data = os.urandom(1 << 20)
        start = time.monotonic()
        for _ in range(max(1, size >> 20)):
            stream.write(data)
        os.fsync(stream.fileno())
        write_s = time.monotonic() - start
        syncs = []
        for _ in range(order.get("syncs", 8)):
            start = time.monotonic()
            stream.write(data[:4096])
            os.fsync(stream.fileno())
            syncs.append((time.monotonic() - start) * 1e3)
    return {"write_mb_per_s": size / 1e6 / write_s, "fsync_ms": statistics.median(syncs)}


def clock(_order: Order) -> Order:
    """The host's wall clock: the caller takes the time before and after."""
    return {"time": time.time()}


def listen(order: Order) -> Order:
    """Opens a port for one peer; its thread sends back each ping, then drinks the stream."""
    server = socket.create_server((order["address"], 0), backlog=1)
    server.settimeout(order.get("timeout_s", 10))
    port = server.getsockname()[1]
    thread = threading.Thread(target=serve, args=(server, order.get("pings", 20)), daemon=True)
    thread.start()
    LISTENERS[port] = server
    return {"port": port}


def serve(server: socket.socket, pings: int) -> None:
    """One peer of a listener."""
    with server:
        try:
            peer = server.accept()[0]
        except OSError:
            return
        with peer:
            peer.settimeout(10)
            peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                for _ in range(pings):
                    peer.sendall(peer.recv(64))
                total, buffer = 0, bytearray(1 << 20)
                while True:
                    count = peer.recv_into(buffer)
                    if not count:
                        break
                    total += count
                peer.sendall(str(total).encode())
            except OSError:
                return


def connect(order: Order) -> Order:
    """Round trips and a stream to a listening peer over TCP."""
    pings, seconds = order.get("pings", 20), order.get("seconds", 0.3)
    place = (order["address"], order["port"])
    source = (order["source"], 0) if order.get("source") else None
    with socket.create_connection(place, timeout=5, source_address=source) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        trips = []
        for _ in range(pings):
            start = time.perf_counter()
            peer.sendall(b"p" * 64)
            peer.recv(64)
            trips.append((time.perf_counter() - start) * 1e6)
        data, start, sent = memoryview(bytes(BLOCK)), time.monotonic(), 0
        while time.monotonic() - start < seconds:
            peer.sendall(data)
            sent += len(data)
        peer.shutdown(socket.SHUT_WR)
        arrived = int(peer.recv(64) or b"0")
        took = time.monotonic() - start
    return {"gbit_per_s": arrived * 8 / 1e9 / took, "latency_us": statistics.median(trips), "sent": sent}


def fetch(order: Order) -> Order:
    """Whether a local HTTP endpoint answers, and its first line of metrics."""
    from urllib.request import ProxyHandler, build_opener

    with build_opener(ProxyHandler({})).open(order["url"], timeout=3) as answer:
        body = answer.read(1 << 20)
        return {"status": answer.status, "bytes": len(body)}


DOERS: dict[str, Callable[[Order], Order]] = {
    "cpu": cpu,
    "memory": memory,
    "disk": disk,
    "clock": clock,
    "listen": listen,
    "connect": connect,
    "fetch": fetch,
}


def main(_request: str) -> None:
    """Answers orders until `stop` or the end of the input."""
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "stop":
            break
        try:
            result = DOERS[order["do"]](order)
        except Exception as error:  # noqa: BLE001 (every failure is an answer, not the end of the session)
            result = {"error": f"{type(error).__name__}: {error}"}
        sys.stdout.write(json.dumps(result) + "\n")
        sys.stdout.flush()
