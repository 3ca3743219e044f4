#!/usr/bin/python
"""Ansible module: installs uploaded .deb files with apt and no network; nothing when one does not fit."""

# ruff: noqa: PTH108, PTH118

from __future__ import annotations

import hashlib
import os

from ansible.module_utils.basic import AnsibleModule  # type: ignore[import-untyped]

DOCUMENTATION = r"""
module: podsys_debs
short_description: Installs Debian packages from files
description: [Checks SHA-256, then one apt-get without any package source, and removes the files.]
options:
  folder: {description: Where the files are., type: path, required: true}
  debs: {description: [file, sha256.], type: list, elements: dict, required: true}
author: [podsys]
"""
OPTIONS = [
    "-y",
    "-q",
    "--no-install-recommends",
    "--allow-downgrades",
    "-o", "Dir::Etc::sourcelist=/dev/null",
    "-o", "Dir::Etc::sourceparts=/dev/null",
    "-o", "Dpkg::Options::=--force-confold",
    "-o", "DPkg::Lock::Timeout=60",
]  # fmt: skip


def main() -> None:
    """Runs the module."""
    module = AnsibleModule(
        argument_spec={
            "folder": {"type": "path", "required": True},
            "debs": {"type": "list", "elements": "dict", "required": True},
        }
    )
    paths = []
    for deb in module.params["debs"]:
        path = os.path.join(module.params["folder"], deb["file"])
        with open(path, "rb") as stream:
            if hashlib.sha256(stream.read()).hexdigest() != deb["sha256"]:
                module.fail_json(msg=f"{deb['file']} is not the bundle's file")
        paths.append(path)
    environment = {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    code, out, err = module.run_command(["apt-get", "install", *OPTIONS, *paths], environ_update=environment)
    if code:
        lines = [line for line in (out + err).splitlines() if line.strip()]
        module.fail_json(msg="apt-get: " + " | ".join(lines[-6:]))
    for path in paths:
        os.unlink(path)
    module.exit_json(changed=True)


if __name__ == "__main__":
    main()
