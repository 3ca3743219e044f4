"""What makes an image this very node: a tar archive of small files, made from the deploy order.

The same archive is unpacked over a root file system or written to a whole-disk image's
configuration partition.  Pure: an order in, bytes out.
"""

from __future__ import annotations

import io
import json
import shlex
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

NIC_NAMES = {"management": "mgmt0", "compute": "cmp0", "storage": "sto0"}
CHECKIN_PROGRAM = Path(__file__).with_name("checkin.py")

CHECKIN_UNIT = """\
[Unit]
Description=Tell the provisioning service that this node is up
After=network.target ssh.service
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=/usr/bin/python3 -I /usr/local/lib/ogai/checkin.py /etc/ogai/checkin.json
Restart=on-failure
RestartSec=2

[Install]
WantedBy=multi-user.target
"""


def personality(order: Mapping[str, Any]) -> bytes:
    """The node's own files as an uncompressed tar archive, from a deploy order.

    Host name, authorised keys of root, one network file for each segment (matched by MAC), and
    the unit that checks in with the order's token at every start.
    """
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text, mode in _files(order):
            _folders(archive, name)
            _file(archive, name, text.encode(), mode)
        link = tarfile.TarInfo("etc/systemd/system/multi-user.target.wants/ogai-checkin.service")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/systemd/system/ogai-checkin.service"
        archive.addfile(link)
    return stream.getvalue()


def _files(order: Mapping[str, Any]) -> Iterable[tuple[str, str, int]]:
    hostname = str(order["hostname"])
    yield "etc/hostname", f"{hostname}\n", 0o644
    yield "etc/hosts", f"127.0.0.1 localhost\n::1 localhost\n127.0.1.1 {hostname}\n", 0o644
    keys = "".join(f"{str(key).strip()}\n" for key in order.get("ssh_keys", ()))
    yield "root/.ssh/authorized_keys", keys, 0o600
    for segment, address in order.get("addresses", {}).items():
        name = NIC_NAMES[segment]
        yield f"etc/systemd/network/10-{name}.network", _network(address), 0o644
        # Named by what it is cabled to, whatever the firmware and the kernel would call it.
        link = f"[Match]\nMACAddress={address['mac']}\nType=ether\n\n[Link]\nName={name}\n"
        yield f"etc/systemd/network/10-{name}.link", link, 0o644
    yield "etc/systemd/system/ogai-checkin.service", CHECKIN_UNIT, 0o644
    yield "usr/local/lib/ogai/checkin.py", CHECKIN_PROGRAM.read_text("utf-8"), 0o644
    nics = {segment: NIC_NAMES[segment] for segment in order.get("addresses", {})}
    report = {"url": order["checkin_url"], "token": order["token"], "nics": nics}
    yield "etc/ogai/checkin.json", json.dumps(report), 0o600


def _network(address: Mapping[str, Any]) -> str:
    lines = ["[Match]", f"MACAddress={address['mac']}", "", "[Network]", f"Address={address['address']}"]
    if address.get("gateway"):
        lines.append(f"Gateway={address['gateway']}")
    lines += ["LinkLocalAddressing=no", "IPv6AcceptRA=no", "ConfigureWithoutCarrier=yes", ""]
    return "\n".join(lines)


_MODES = {"root": 0o711, "root/.ssh": 0o700, "etc/ogai": 0o700}


def _folders(archive: tarfile.TarFile, name: str) -> None:
    present = set(archive.getnames())
    parts = name.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        if folder not in present:
            info = tarfile.TarInfo(folder)
            info.type, info.mode = tarfile.DIRTYPE, _MODES.get(folder, 0o755)
            archive.addfile(info)
            present.add(folder)


def _file(archive: tarfile.TarFile, name: str, data: bytes, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(data), mode
    archive.addfile(info, io.BytesIO(data))


def shell_order(order: Mapping[str, Any]) -> str:
    """The order as shell variables, for an agent that has a shell and no JSON parser."""
    image = order.get("image") or {}
    values = {
        "ACTION": order["action"],
        "TOKEN": order.get("token", ""),
        "IMAGE_URL": image.get("url", ""),
        "IMAGE_SHA256": image.get("sha256", ""),
        "IMAGE_FORMAT": image.get("format", ""),
        "IMAGE_SIZE": image.get("size", ""),
        "HOSTNAME": order.get("hostname", ""),
    }
    return "".join(f"OGAI_{name}={shlex.quote(str(value))}\n" for name, value in values.items())
