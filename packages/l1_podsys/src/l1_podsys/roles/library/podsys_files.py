#!/usr/bin/python
"""Ansible module: sets a batch of files, marked blocks and links, each whole or not at all."""

# ruff: noqa: PTH101, PTH102, PTH104, PTH108, PTH110, PTH112, PTH116, PTH118, PTH120

from __future__ import annotations

import grp
import hashlib
import os
import pwd
import tempfile
from typing import Any

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]

DOCUMENTATION = r"""
module: podsys_files
short_description: Sets a batch of files, blocks and links
description: [Writes each file to a neighbour and renames it; checks digests; leaves the rest alone.]
options:
  files:
    description: [path, content or upload (a file in `uploads`), mode, owner, group, block, validate.]
    type: list
    elements: dict
    default: []
  links:
    description: [path, target.]
    type: list
    elements: dict
    default: []
  uploads:
    description: Folder with uploaded contents.
    type: path
    default: ""
author: [podsys]
"""
LOCAL_NAMES = "127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n"
BEGIN, END = "# BEGIN podsys\n", "# END podsys\n"


def make_parents(path: str, mode: int, owner: int, group: int) -> None:
    """Makes missing folders above a path; those that exist are not touched."""
    missing = []
    folder = os.path.dirname(path)
    while folder and not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for folder in reversed(missing):
        os.mkdir(folder, 0o700)
        os.chown(folder, owner, group)
        os.chmod(folder, mode)


def with_block(path: str, lines: str) -> str:
    """The text of a file with the lines between our marks replaced, or added at its top."""
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        text = LOCAL_NAMES if path == "/etc/hosts" else ""
    block = BEGIN + lines + END
    if BEGIN in text and END in text.partition(BEGIN)[2]:
        before, _, rest = text.partition(BEGIN)
        return before + block + rest.partition(END)[2]
    # On top, because the first answer counts: a 127.0.1.1 line for the host's own name, as Debian's
    # installer writes it, would send peers of a job to their own loopback.
    return block + text


def replace(path: str, data: bytes, mode: int, owner: int, group: int) -> None:
    """Writes a neighbour and renames it over the path; a bind-mounted file is rewritten in place."""
    handle, neighbour = tempfile.mkstemp(prefix=".podsys-", dir=os.path.dirname(path))
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        os.chown(neighbour, owner, group)
        os.chmod(neighbour, mode)
        try:
            os.rename(neighbour, path)
        except OSError:
            if not os.path.ismount(path):
                raise
            with open(path, "wb") as stream:
                stream.write(data)
    finally:
        if os.path.exists(neighbour):
            os.unlink(neighbour)


def set_file(module: AnsibleModule, item: dict[str, Any], uploads: str) -> None:
    """Sets one file; parents that are missing are made."""
    path = item["path"]
    owner, group = pwd.getpwnam(item["owner"]).pw_uid, grp.getgrnam(item["group"]).gr_gid
    mode = int(item["mode"], 8)
    if item.get("upload"):
        with open(os.path.join(uploads, item["upload"]), "rb") as stream:
            data = stream.read()
    else:
        data = item["content"].encode()
        if "sha256:" + hashlib.sha256(data).hexdigest() != item["digest"]:
            module.fail_json(msg=f"the content of {path} is not the plan's")
    if item.get("block"):
        data = with_block(path, data.decode()).encode()
        if os.path.exists(path):
            status = os.stat(path)
            mode, owner, group = status.st_mode & 0o7777, status.st_uid, status.st_gid
    make_parents(path, int(item["parents_mode"], 8), owner, group)
    if path.startswith("/etc/sudoers.d/"):
        check_sudoers(module, data)
    replace(path, data, mode, owner, group)
    if item.get("upload"):
        os.unlink(os.path.join(uploads, item["upload"]))


def check_sudoers(module: AnsibleModule, data: bytes) -> None:
    """A broken sudoers file would lock everyone out of sudo."""
    if not module.get_bin_path("visudo"):
        module.fail_json(msg="there is no visudo: install sudo on the host")
    with tempfile.NamedTemporaryFile() as stream:
        stream.write(data)
        stream.flush()
        code, _, text = module.run_command(["visudo", "-cf", stream.name])
    if code:
        module.fail_json(msg=f"visudo refuses the file: {text}")


def set_link(module: AnsibleModule, item: dict[str, Any]) -> None:
    """Sets one link, only to something that is there."""
    target = os.path.join(os.path.dirname(item["path"]), item["target"])
    if not os.path.exists(target):
        module.fail_json(msg=f"{item['path']}: there is no {item['target']} on this host")
    neighbour = item["path"] + ".podsys-new"
    if os.path.lexists(neighbour):
        os.unlink(neighbour)
    os.symlink(item["target"], neighbour)
    os.rename(neighbour, item["path"])


def main() -> None:
    """Runs the module."""
    module = AnsibleModule(
        argument_spec={
            "files": {"type": "list", "elements": "dict", "default": []},
            "links": {"type": "list", "elements": "dict", "default": []},
            "uploads": {"type": "path", "default": ""},
        }
    )
    done = []
    try:
        for item in module.params["links"]:
            set_link(module, item)
            done.append(item["path"])
        for item in module.params["files"]:
            set_file(module, item, module.params["uploads"])
            done.append(item["path"])
    except (OSError, KeyError) as error:
        module.fail_json(msg=f"{type(error).__name__}: {error}", paths=done)
    module.exit_json(changed=bool(done), paths=done)


if __name__ == "__main__":
    main()
