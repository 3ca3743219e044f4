"""The process that reads PDF pages for another one: a page that hangs or crashes takes nothing with it.

On standard input it gets pickled requests, on standard output it gives pickled answers.  The CPU time of a
page is bounded by a timer that ends the process; memory by a limit of the operating system.
"""

from __future__ import annotations

import os
import pickle
import resource
import signal
import sys
from typing import Any, BinaryIO

import pypdfium2

from l3_ylink.datakit.fileqa.pages.reader import OCR_FACTOR
from l3_ylink.datakit.fileqa.pages.sheet import open_document, read


def main() -> None:
    """Answers requests until standard input ends."""
    source, target = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not come between the answers
    limit_cpu, limit_memory = float(sys.argv[1]), int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_AS, (limit_memory, limit_memory))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    document: pypdfium2.PdfDocument | None = None
    while True:
        try:
            request = pickle.load(source)  # noqa: S301 (from the process that started this one)
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_PROF, limit_cpu * (OCR_FACTOR if request[0] == "ocr" else 1))
        answer: Any
        try:
            if request[0] == "open":
                if document is not None:
                    document.close()
                document, answer = open_document(request[1])
            elif request[0] == "ocr":
                from l3_ylink.datakit.fileqa.ocr import read_scan

                answer = read_scan(document, request[1])
            else:
                answer = read(document, request[1])
        except MemoryError:
            answer = "memory"
        except pypdfium2.PdfiumError as error:
            answer = "password" if "password" in str(error).lower() else "broken"
        except (ValueError, ArithmeticError, IndexError, RuntimeError, ImportError) as error:
            answer = "no_ocr" if isinstance(error, ImportError) else "broken"
        signal.setitimer(signal.ITIMER_PROF, 0)
        _send(target, answer)


def _send(target: BinaryIO, answer: Any) -> None:
    pickle.dump(answer, target, protocol=5)
    target.flush()


if __name__ == "__main__":
    main()
