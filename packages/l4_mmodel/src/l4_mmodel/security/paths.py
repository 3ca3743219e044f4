"""Opening a file below a folder without ever leaving it: no `..`, no symbolic link, no device."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from l4_mmodel._kit.problems import BadInput

CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
MOST_BYTES = 512


def check_relative(uri: str) -> list[str]:
    """The parts of a relative path; `BadInput` for anything that could point elsewhere."""
    parts = uri.split("/")
    if uri.startswith("/") or ".." in parts:
        raise BadInput(f"{uri!r} leaves the folder", field="files.uri", do="use paths inside the folder")
    if "" in parts or "." in parts or CONTROL.search(uri) or len(uri.encode()) > MOST_BYTES:
        raise BadInput(f"{uri!r} is not a plain relative path", field="files.uri")
    return parts


@contextlib.contextmanager
def open_inside(folder: Path, uri: str) -> Iterator[int]:
    """A descriptor of the regular file `uri` below `folder`, opened part by part, no link followed."""
    parts = check_relative(uri)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | (os.O_NONBLOCK if last else os.O_DIRECTORY)
            inner = os.open(part, flags, dir_fd=descriptor)
            os.close(descriptor)
            descriptor = inner
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise BadInput("is not a regular file", field=uri, do="remove it from the manifest")
        yield descriptor
    except FileNotFoundError as error:
        raise BadInput("no such file", field=uri, do="check the manifest against its folder") from error
    except NotADirectoryError as error:
        raise BadInput("goes through a link or a file", field=uri, do="use real folders") from error
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise BadInput("is a symbolic link", field=uri, do="put the file itself there") from error
    finally:
        os.close(descriptor)
