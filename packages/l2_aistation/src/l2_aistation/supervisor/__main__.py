"""`python -m l2_aistation.supervisor JOB_FOLDER --shared FOLDER --node ID`."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from .folder import JobFolder
from .loop import Supervisor


def main() -> None:
    """Supervises one job on this node until it is released."""
    parser = argparse.ArgumentParser(prog="aistation-supervisor")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shared", type=Path, required=True)
    parser.add_argument("--node", required=True)
    arguments = parser.parse_args()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # it outlives its starter, whose locks it must not hold
    folder = JobFolder(arguments.folder)
    with folder.supervised(patience_s=2.0) as mine:
        if mine:
            Supervisor(folder, shared=arguments.shared, node=arguments.node).run()


if __name__ == "__main__":
    main()
