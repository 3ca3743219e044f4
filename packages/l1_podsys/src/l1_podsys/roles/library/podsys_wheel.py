#!/usr/bin/python
"""Ansible module: unpacks a wheel into a folder of its own, every file checked against RECORD."""

# ruff: noqa: PTH103, PTH104, PTH108, PTH118, PTH119, PTH120

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import shutil
import zipfile

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]

DOCUMENTATION = r"""
module: podsys_wheel
short_description: Unpacks a wheel
description: [Checks the wheel's SHA-256 and its RECORD, unpacks beside the folder and renames it.]
options:
  wheel: {description: The wheel's file., type: path, required: true}
  sha256: {description: What the file must have., type: str, required: true}
  folder: {description: Where its content goes., type: path, required: true}
  mark: {description: File that is written last; it holds the digest., type: path, required: true}
author: [podsys]
"""


def recorded(archive: zipfile.ZipFile) -> tuple[dict[str, list[str]], str]:
    """The digests that the wheel's RECORD lists (name: algorithm, digest), and RECORD's own name."""
    name = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
    rows = csv.reader(io.StringIO(archive.read(name).decode()))
    return {row[0]: row[1].split("=", 1) for row in rows if len(row) > 1 and row[1]}, name


def unpack(archive: zipfile.ZipFile, place: str) -> None:
    """Writes every member whose digest is right; the first that is not ends it."""
    digests, record = recorded(archive)
    for member in archive.infolist():
        if member.is_dir():
            continue
        target = os.path.normpath(os.path.join(place, member.filename))
        if not target.startswith(place + os.sep):
            raise ValueError(f"{member.filename} would leave the folder")
        data = archive.read(member)
        if member.filename != record:
            kind, digest = digests[member.filename]
            have = base64.urlsafe_b64encode(hashlib.new(kind, data).digest()).rstrip(b"=").decode()
            if have != digest:
                raise ValueError(f"{member.filename} differs from its RECORD")
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "wb") as stream:
            stream.write(data)


def main() -> None:
    """Runs the module."""
    text = {"type": "str", "required": True}
    path = {"type": "path", "required": True}
    module = AnsibleModule(argument_spec={"wheel": path, "sha256": text, "folder": path, "mark": path})
    folder, wheel = module.params["folder"], module.params["wheel"]
    with open(wheel, "rb") as stream:
        if hashlib.sha256(stream.read()).hexdigest() != module.params["sha256"]:
            module.fail_json(msg=f"{os.path.basename(wheel)} is not the plan's wheel")
    place = folder + ".new"
    shutil.rmtree(place, ignore_errors=True)
    os.umask(0o022)
    try:
        os.makedirs(place)
        with zipfile.ZipFile(wheel) as archive:
            unpack(archive, place)
        with open(os.path.join(place, os.path.basename(module.params["mark"])), "w") as stream:
            stream.write(module.params["sha256"] + "\n")
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(place, folder)
        for old in os.listdir(os.path.dirname(folder)):
            if old != os.path.basename(folder):
                shutil.rmtree(os.path.join(os.path.dirname(folder), old), ignore_errors=True)
    except (OSError, KeyError, ValueError, StopIteration, zipfile.BadZipFile) as error:
        shutil.rmtree(place, ignore_errors=True)
        module.fail_json(msg=f"{os.path.basename(wheel)}: {error or 'no RECORD'}")
    os.unlink(wheel)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
