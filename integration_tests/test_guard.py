"""The demo stops when a process that it needs has died, however the demo itself was started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

WAITS_FOR_EVER = """
import subprocess, time
from integration_tests.processes import Guard

child = subprocess.Popen(["sleep", "0.2"])
guard = Guard()
guard.needs("the sleeper", lambda: child.poll() is None)
with guard:
    time.sleep(60)
"""


def test_a_death_is_told_even_where_the_shell_made_interrupts_ignored() -> None:
    """`command &` in a script starts a program with SIGINT ignored (POSIX, 2.11)."""
    script = '"$0" -c "$1" & wait $!'
    done = subprocess.run(
        ["sh", "-c", script, sys.executable, WAITS_FOR_EVER],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1
    assert "the sleeper has died" in done.stderr
