"""Runs a program that dies with its parent: `python tied.py PARENT_PID PROGRAM ARGS…`.

A file of its own, run with `-I -S`, so that it starts in milliseconds and needs nothing installed.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1

if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):  # the parent died before we asked to be told
        sys.exit(128 + signal.SIGKILL)
    try:
        os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 (it becomes the program)
    except OSError as error:
        sys.exit(f"error: cannot start {sys.argv[2]}: {error.strerror}")
