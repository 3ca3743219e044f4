"""A stack: components and their versions.  `known_good.yaml` holds stacks that are published as fitting."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import yaml

from l1_podsys._kit.problems import BadInput

#: component: what its value means.
COMPONENTS: dict[str, str] = {
    "os": "distribution and release, as debian-12, ubuntu-24.04, rhel-8.10",
    "kernel": "kernel version",
    "gpu": "generation: volta, turing, ampere, ada, hopper, blackwell",
    "nvswitch": "yes or no",
    "driver": "NVIDIA driver version",
    "module": "kernel module: open or proprietary",
    "fabricmanager": "Fabric Manager version, or none",
    "cuda": "CUDA toolkit version",
    "nccl": "NCCL version",
    "doca": "DOCA-OFED version, or inbox",
    "gdrcopy": "GDRCopy version",
    "dcgm": "DCGM version",
    "gpudirect": "how GPUDirect RDMA is done: dma-buf, peermem or off",
}

#: Components whose value is not a version, or need not be one.
WORDS: dict[str, tuple[str, ...] | None] = {
    "os": None,
    "gpu": None,
    "doca": None,
    "nvswitch": ("yes", "no"),
    "module": ("open", "proprietary"),
    "gpudirect": ("dma-buf", "peermem", "off"),
}
LONGEST = 64

Stack = dict[str, str]


def checked(stack: Mapping[str, Any]) -> Stack:
    """A stack with known components only; a `BadInput` names an unknown one, or what is no version."""
    facts = {name: str(value) for name, value in stack.items()}
    for name, value in facts.items():
        if name not in COMPONENTS:
            raise BadInput("unknown component", field=name, do=f"use: {', '.join(COMPONENTS)}")
        words = WORDS.get(name, ())
        if len(value) > LONGEST or (words and value not in words):
            raise BadInput(f"{value[:LONGEST]!r} is no value for it", field=name, do=COMPONENTS[name])
        if words == () and not number(value) and (name, value) != ("fabricmanager", "none"):
            raise BadInput(f"{value!r} is not a version", field=name, do="write it as 580.65.06")
    return facts


def number(version: str) -> tuple[int, ...]:
    """A version as numbers, for comparing: 560.35.03-1 as (560, 35, 3)."""
    parts = []
    for part in version.partition("-")[0].split("."):
        digits = "".join(sign for sign in part if sign.isdecimal())
        if not digits:
            break
        parts.append(int(digits))
    return tuple(parts)


@functools.cache
def known_good() -> list[Stack]:
    """The published stacks, newest first."""
    text = files(__package__).joinpath("known_good.yaml").read_text("utf-8")
    rows: list[dict[str, Any]] = yaml.safe_load(text)["stacks"]
    return [checked(row) for row in rows]
