"""Runs on the node after every start: waits for sshd, then tells the provisioning service.

Stands alone: the node has Python and nothing of ours.
"""

import json
import pathlib
import random
import socket
import subprocess
import sys
import time
import urllib.request

HOST_KEY = pathlib.Path("/etc/ssh/ssh_host_ed25519_key.pub")
PATIENCE_S = 20.0


def ssh_answers() -> bool:
    """Whether a login could be made now."""
    try:
        with socket.create_connection(("127.0.0.1", 22), timeout=1) as connection:
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False


def addresses(nics: dict[str, str]) -> dict[str, str]:
    """The IPv4 address on each segment, as the kernel has it."""
    found = json.loads(subprocess.run(["ip", "-j", "-4", "address"], capture_output=True, check=True).stdout)
    by_nic = {link["ifname"]: [a["local"] for a in link.get("addr_info", [])] for link in found}
    return {segment: by_nic[nic][0] for segment, nic in nics.items() if by_nic.get(nic)}


def main() -> int:
    """Checks in once; the unit starts it again when that fails."""
    report = json.loads(pathlib.Path(sys.argv[1]).read_text("utf-8"))
    deadline = time.monotonic() + PATIENCE_S
    while not (ssh_answers() and len(addresses(report["nics"])) == len(report["nics"])):
        if time.monotonic() > deadline:
            break  # better to be heard with an address missing than not at all
        time.sleep(0.1)
    body = {
        "token": report["token"],
        "hostname": socket.gethostname(),
        "addresses": addresses(report["nics"]),
        "host_key": " ".join(HOST_KEY.read_text("utf-8").split()[:2]),
    }
    request = urllib.request.Request(  # noqa: S310 (the URL is the operator's own)
        report["url"], json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10):  # noqa: S310
            return 0
    except OSError as error:
        print(f"check-in at {report['url']} failed: {error}", file=sys.stderr)
        time.sleep(random.uniform(0, 2))  # many nodes start together
        return 1


if __name__ == "__main__":
    sys.exit(main())
