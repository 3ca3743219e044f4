"""What every layer of OGAI shares: documents, problems, settings, tokens, pages, command lines.

Each layer carries its own copy of these files under `_kit`, because each wheel stands alone.
The copies are written by `python tools/kit.py --write` and held equal by `nox -s lint`:
change the files in the repository's `kit/` folder, never a copy.
"""
