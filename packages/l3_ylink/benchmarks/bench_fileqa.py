"""PDF to text and tables: ylink beside pypdfium2, poppler, markitdown, pymupdf4llm, on two real manuals.

`python bench_fileqa.py [--ocr]` prints one JSON list of rows.  The manuals come by name from Debian
(maint-guide-zh-cn, debian-reference-zh-cn) and are never committed.  Text: F1 of pairs of neighbouring
characters, white space aside, against the plain text that the same source was set to.  Tables: the data
tables of the same manual as HTML; a cell counts when its text is the same, white space and the shape of
quotation marks aside; tables are paired by the cells that they share.  Times are CPU seconds (user and
system) of a process that reads the whole file, start-up included, the calmest of three.  `--ocr` also
recognises two pages that were made images of; their own characters are the gold.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench" / "fileqa"
PACKAGES = ("maint-guide-zh-cn", "debian-reference-zh-cn")
PEERS = ("pypdfium2==5.15.2", "markitdown[pdf]==0.1.9", "pymupdf4llm==1.28.2", "pymupdf==1.28.2")
GUIDE = "usr/share/doc/maint-guide-zh-cn/maint-guide.zh-cn"
REFERENCE = "usr/share/debian-reference"
QUOTES = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'"})
LEAST_F1, MOST_MS = 0.91, 30.0

OURS_TEXT = """
import sys
from pathlib import Path
from l3_ylink.datakit.fileqa.document import read_document
from l3_ylink.datakit.fileqa.render import render
Path(sys.argv[2]).write_text(render(read_document(sys.argv[1], ocr=False).blocks).text)
"""
OURS_TABLES = """
import json, sys
from pathlib import Path
from l3_ylink.datakit.fileqa.document import read_document
found = [table.grid() for table in read_document(sys.argv[1], ocr=False).tables()]
Path(sys.argv[2]).write_text(json.dumps(found))
"""
PYPDFIUM2 = """
import sys
from pathlib import Path
import pypdfium2
document = pypdfium2.PdfDocument(sys.argv[1])
pages = [page.get_textpage().get_text_range() for page in document]
Path(sys.argv[2]).write_text("\\n\\n".join(pages))
"""
MARKITDOWN = """
import sys
from pathlib import Path
from markitdown import MarkItDown
Path(sys.argv[2]).write_text(MarkItDown().convert(sys.argv[1]).text_content)
"""
PYMUPDF4LLM = """
import sys
from pathlib import Path
import pymupdf4llm
Path(sys.argv[2]).write_text(pymupdf4llm.to_markdown(sys.argv[1]))
"""


def corpus() -> Path:
    """The unpacked manuals, fetched when they are not there."""
    tree = CACHE / "tree"
    (CACHE / "deb").mkdir(parents=True, exist_ok=True)
    if not (tree / ".complete").exists():
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=CACHE / "deb", check=True, stdout=sys.stderr)
        for package in sorted((CACHE / "deb").glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", package, tree], check=True)
        (tree / ".complete").touch()
    return tree


def peer_python() -> Path:
    """The interpreter of the peers' environment, which is made when it is not there or incomplete."""
    python, complete = CACHE / "venv" / "bin" / "python", CACHE / "venv" / "complete"
    if not complete.exists() or complete.read_text() != " ".join(PEERS):
        subprocess.run([sys.executable, "-m", "venv", CACHE / "venv"], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *PEERS], check=True, stdout=sys.stderr)
        complete.write_text(" ".join(PEERS))
    return python


def cpu_of(python: Path, program: str, source: Path, times: int = 3) -> tuple[str, float]:
    """What a program writes for a file, and the least CPU seconds that it took."""
    figures, found = [], ""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "out"
        for _ in range(times):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            done = subprocess.run(
                [python, "-c", program, source, target], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise SystemExit(f"{program}: {done.stderr[-2000:]}")
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            figures.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            found = target.read_text()
    return found, min(figures)


def pairs_f1(text: str, gold: str) -> tuple[float, float, float]:
    """F1, precision and recall of pairs of neighbouring characters."""
    ours, right = (Counter(map("".join, pairwise(s))) for s in map(_solid, (text, gold)))
    shared = sum((ours & right).values())
    precision, recall = shared / max(sum(ours.values()), 1), shared / max(sum(right.values()), 1)
    return 2 * precision * recall / max(precision + recall, 1e-9), precision, recall


def _solid(text: str) -> str:
    return re.sub(r"\s+", "", text)


def markdown_tables(text: str) -> list[list[list[str]]]:
    """The pipe tables of a peer's Markdown."""
    tables: list[list[list[str]]] = []
    inside = False
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.strip().startswith("|"):
            inside = False
        elif re.fullmatch(r"[|\s:-]+", line):
            continue
        else:
            if not inside:
                tables.append([])
            tables[-1].append(cells)
            inside = True
    return tables


def gold_tables(folder: Path) -> tuple[list[list[list[str]]], list[str]]:
    """The data tables of the manual's HTML, and its listings."""
    import lxml.html  # type: ignore[import-untyped]

    tables, listings = [], []
    for path in sorted(folder.glob("*.zh-cn.html")):
        tree = lxml.html.parse(str(path)).getroot()
        listings += [pre.text_content() for pre in tree.iter("pre")]
        for table in tree.xpath('//table[@class="table-contents"]|//div[@class="table-contents"]/table'):
            rows = [[cell.text_content() for cell in row.xpath("./td|./th")] for row in table.iter("tr")]
            tables.append(rows)
    return tables, listings


def score_tables(
    found: list[list[list[str]]], gold: list[list[list[str]]], listings: list[str]
) -> dict[str, Any]:
    """Count error, F1 of cells, and how many tables were made of code."""
    ours, right = [_cells(table) for table in found], [_cells(table) for table in gold]
    shared = sorted(
        ((sum((one & other).values()), i, j) for i, one in enumerate(right) for j, other in enumerate(ours)),
        reverse=True,
    )
    taken: tuple[set[int], set[int]] = (set(), set())
    hits, paired = 0, set[int]()
    for count, i, j in shared:
        if count and i not in taken[0] and j not in taken[1]:
            taken[0].add(i)
            taken[1].add(j)
            hits += count
            paired.add(j)
    code = _solid("\n".join(listings)).translate(QUOTES)
    of_code = sum(
        sum(cell in code for cell in table) > 0.5 * len(table)
        for number, table in enumerate(ours)
        if table and (number not in paired or not _mostly(table, right))
    )
    total = sum(sum(table.values()) for table in ours) + sum(sum(table.values()) for table in right)
    return {
        "count": len(found),
        "error": abs(len(found) - len(gold)) / len(gold),
        "f1": 2 * hits / total,
        "of_code": of_code,
    }


def _mostly(table: Counter[str], gold: list[Counter[str]]) -> bool:
    return any(sum((table & other).values()) > 0.5 * sum(table.values()) for other in gold)


def _cells(table: list[list[str]]) -> Counter[str]:
    texts = (_solid(re.sub(r"<br>|\\\\|[*`]", "", cell)).translate(QUOTES) for row in table for cell in row)
    return Counter(text for text in texts if text)


def row(
    name: str, ours: float, peer: float | None, version: str, unit: str, how: str, bar: str, *, ok: bool
) -> dict[str, Any]:
    ratio = None if not peer else round(ours / peer, 3)
    return {
        "layer": "l3",
        "name": name,
        "ours": round(ours, 4),
        "peer": None if peer is None else round(peer, 4),
        "peer_version": version,
        "ratio": ratio,
        "unit": unit,
        "how": how,
        "bar": bar,
        "ok": ok,
    }


def text_rows(tree: Path) -> list[dict[str, Any]]:
    """F1 and CPU time on the guide."""
    source = tree / f"{GUIDE}.pdf"
    gold = gzip.decompress((tree / f"{GUIDE}.txt.gz").read_bytes()).decode()
    pages = _pages(source)
    text, seconds = cpu_of(Path(sys.executable), OURS_TEXT, source)
    f1, precision, recall = pairs_f1(text, gold)
    per_page = seconds * 1000 / pages
    python = peer_python()
    peers = {
        "pypdfium2 5.15.2": cpu_of(python, PYPDFIUM2, source),
        "markitdown 0.1.9": cpu_of(python, MARKITDOWN, source, 1),
        "pymupdf4llm 1.28.2": cpu_of(python, PYMUPDF4LLM, source, 1),
    }
    if shutil.which("pdftotext"):
        poppler = "import subprocess, sys; subprocess.run(['pdftotext', *sys.argv[1:]], check=True)"
        peers["poppler"] = cpu_of(Path(sys.executable), poppler, source)
    scores = {name: pairs_f1(found, gold)[0] for name, (found, _) in peers.items()}
    best = max(scores, key=scores.__getitem__)
    each = ", ".join(f"{n} {scores[n]:.3f} at {peers[n][1] * 1000 / pages:.1f} ms" for n in peers)
    return [
        row(
            "PDF text, maint-guide.zh-cn.pdf", f1, scores[best], best, "F1 of character pairs",
            f"gold is its text twin; precision {precision:.3f}, recall {recall:.3f}; peers: {each}",
            f">= {LEAST_F1}", ok=f1 >= LEAST_F1,
        ),
        row(
            "PDF text, CPU time", per_page, peers[best][1] * 1000 / pages, best, "CPU ms a page",
            f"whole process, {pages} pages", f"<= {MOST_MS:.0f}", ok=per_page <= MOST_MS,
        ),
    ]  # fmt: skip


def table_rows(tree: Path) -> list[dict[str, Any]]:
    """Tables of the reference manual."""
    folder = tree / REFERENCE
    source = folder / "debian-reference.zh-cn.pdf"
    gold, listings = gold_tables(folder)
    found, seconds = cpu_of(Path(sys.executable), OURS_TABLES, source)
    ours = score_tables(json.loads(found), gold, listings)
    python = peer_python()
    peers = {
        name: score_tables(markdown_tables(cpu_of(python, program, source, 1)[0]), gold, listings)
        for name, program in (("markitdown 0.1.9", MARKITDOWN), ("pymupdf4llm 1.28.2", PYMUPDF4LLM))
    }
    best = max(peers, key=lambda name: peers[name]["f1"])
    each = "; ".join(
        f"{name}: {p['count']}, F1 {p['f1']:.3f}, {p['of_code']} of code" for name, p in peers.items()
    )
    how = f"{len(gold)} tables in its HTML, {ours['count']} found; peers: {each}"
    per_page = seconds * 1000 / _pages(source)
    return [
        row("PDF tables, count error", ours["error"], peers[best]["error"], best, "share", how, "< 0.1",
            ok=ours["error"] < 0.1),
        row("PDF tables, cells", ours["f1"], peers[best]["f1"], best, "F1 of cells",
            f"cells with the same text; {per_page:.1f} CPU ms a page", ">= 0.9", ok=ours["f1"] >= 0.9),
        row("PDF tables made of code", ours["of_code"], peers[best]["of_code"], best, "tables",
            "most of whose cells stand in the manual's listings", "0", ok=not ours["of_code"]),
    ]  # fmt: skip


def ocr_rows(tree: Path) -> list[dict[str, Any]]:
    """Recognition of two pages of the guide that were made images of."""
    import io

    import pypdfium2
    from l3_ylink.datakit.fileqa.document import read_document
    from l3_ylink.datakit.fileqa.render import render

    source, scan = pypdfium2.PdfDocument(tree / f"{GUIDE}.pdf"), pypdfium2.PdfDocument.new()
    gold = ""
    for number in (6, 9):
        page = source[number]
        gold += page.get_textpage().get_text_range()
        stream = io.BytesIO()
        page.render(scale=200 / 72).to_pil().convert("L").save(stream, "JPEG", quality=80)
        image = pypdfium2.PdfImage.new(scan)
        image.load_jpeg(stream, inline=True)
        image.set_matrix(pypdfium2.PdfMatrix().scale(*page.get_size()))
        sheet = scan.new_page(*page.get_size())
        sheet.insert_obj(image)
        sheet.gen_content()
    stream = io.BytesIO()
    scan.save(stream)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    text = render(read_document("scan.pdf", stream.getvalue()).blocks).text
    from l3_ylink.datakit.fileqa.pages.reader import close_readers

    close_readers()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    f1, precision, recall = pairs_f1(text, gold)
    how = (
        f"two pages, 200 dpi; precision {precision:.3f}, recall {recall:.3f}; {seconds / 2:.1f} CPU s a page"
    )
    return [
        row(
            "scanned Chinese pages",
            f1,
            None,
            "RapidOCR, as used",
            "F1 of character pairs",
            how,
            ">= 0.9",
            ok=f1 >= 0.9,
        )
    ]


def _pages(source: Path) -> int:
    import pypdfium2

    with pypdfium2.PdfDocument(source) as document:
        return len(document)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ocr", action="store_true", help="also recognise scanned pages")
    wanted = parser.parse_args()
    tree = corpus()
    rows = [*text_rows(tree), *table_rows(tree), *(ocr_rows(tree) if wanted.ocr else [])]
    print(json.dumps(rows, indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
