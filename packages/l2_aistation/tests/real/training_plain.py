"""A stand-in for a training without torch: steps, a checkpoint every 5 steps, resumes by itself.

python training_plain.py STEPS SECONDS_A_STEP [FAIL_AT]
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from l2_aistation import progress

EVERY = 5


def main() -> None:
    last, pause_s = int(sys.argv[1]), float(sys.argv[2])
    fail_at = int(sys.argv[3]) if len(sys.argv) > 3 else None
    folder = Path(os.environ["OGAI_CHECKPOINT_DIR"])
    folder.mkdir(parents=True, exist_ok=True)
    newest = folder / "newest"
    step = int(newest.read_text()) if newest.exists() else 0
    if step:
        progress.resumed(step)
    while step < last:
        step += 1
        if step == fail_at:
            raise ValueError(f"the batch of step {step} has no labels")
        progress.step(step, loss=1 / step)
        if step % EVERY == 0 and os.environ["RANK"] == "0":
            (folder / "unfinished").write_text(str(step))
            os.replace(folder / "unfinished", newest)
            progress.checkpoint(step)
        time.sleep(pause_s)
    print("done", flush=True)


if __name__ == "__main__":
    main()
