"""`fabric.json`: where a fabric's switches are and what is plugged into which port."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from l0_infra_os._kit.problems import Unavailable
from l0_infra_os.ports import SegmentKind


class FabricPort(BaseModel):
    """One switch port, named by the MAC of the NIC behind it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mac: str
    interface: str
    segment: SegmentKind
    leaf: str


class FabricDescription(BaseModel):
    """All ports, and the namespace with the bridges (None: there are no switches at all)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    netns: str | None
    controller: str
    network: str
    ports: tuple[FabricPort, ...]


def read_description(lab_folder: Path) -> FabricDescription:
    """The description in a lab's folder."""
    try:
        return FabricDescription.model_validate_json((lab_folder / "fabric.json").read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        raise Unavailable(
            f"no lab is up in {lab_folder}", do="infra-os lab up (or name its folder in the setting lab_dir)"
        ) from None
    except ValidationError as error:
        raise Unavailable(f"{lab_folder / 'fabric.json'} is damaged", why=str(error)) from error
