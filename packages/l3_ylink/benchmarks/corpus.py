"""The real corpus of the data benchmarks: documentation packages of Debian, by name, as JSONL of texts.

`python corpus.py [--small] [--folder FOLDER]` fetches the packages with `apt-get download`, unpacks them
with `dpkg-deb -x`, takes the text out of HTML, plain text, reStructuredText, Markdown, manual pages and
fortune files, and prints where the JSONL lies with its counts.  What is there already is not made again.
About 50,000 documents and 250 MB of text in twenty languages, with duplicates and twins; `--small` is a
tenth to a twentieth of each package.  The licences are the packages' own (GPL, GFDL, CC-BY-SA, PSF, MPL):
nothing of it belongs into this repository.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

PACKAGES = (
    "linux-doc-6.1", "debian-handbook", "perl-doc", "python3.11-doc", "installation-guide-amd64",
    "libreoffice-help-en-us", "libreoffice-help-zh-cn", "libreoffice-help-zh-tw", "manpages-zh", "manpages",
    "manpages-dev", "debian-reference-en", "debian-reference-zh-cn", "debian-reference-zh-tw", "fortunes-zh",
    "fortunes", "lilypond-doc-html-zh", "gimp-help-zh-cn", "debian-policy", "developers-reference",
    "maint-guide", "maint-guide-zh-cn", "maint-guide-zh-tw", "debian-faq", "debian-faq-zh-cn",
    "debian-edu-doc-zh-cn", "kicad-doc-zh",
)  # fmt: skip
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ogai" / "bench" / "corpus"
BLOCKS = frozenset(
    ("p", "div", "li", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "dd", "pre", "br", "table", "section")
)
HIDDEN = frozenset(("script", "style", "title", "noscript"))
SMALL_EVERY = 20
LONGEST = 2_000_000
SKIPPED = (
    ".png", ".gif", ".jpg", ".jpeg", ".svg", ".pdf", ".js", ".css", ".json", ".xml", ".dat", ".inv", ".so",
    ".eps", ".ps", ".epub", ".ico", ".woff", ".woff2", ".ttf", ".mo",
)  # fmt: skip


def fetch(folder: Path) -> list[str]:
    """Downloads and unpacks the packages that are not there; returns the names that could not be had."""
    missing = []
    (folder / "deb").mkdir(parents=True, exist_ok=True)
    for name in PACKAGES:
        tree = folder / "tree" / name
        if (tree / ".complete").exists():
            continue
        done = subprocess.run(
            ["apt-get", "download", name], cwd=folder / "deb", capture_output=True, text=True, check=False
        )
        files = sorted((folder / "deb").glob(f"{name}_*.deb"))
        if done.returncode or not files:
            missing.append(name)
            continue
        tree.mkdir(parents=True, exist_ok=True)
        subprocess.run(["dpkg-deb", "-x", files[-1], tree], check=True)
        (tree / ".complete").touch()
    return missing


def documents(tree: Path, every: int) -> Iterator[tuple[str, str]]:
    """The name and the text of every document of a package, or of each `every`-th."""
    paths = sorted(path for path in tree.rglob("*") if path.is_file() and not path.is_symlink())
    for number, path in enumerate(paths):
        name = path.relative_to(tree).as_posix()
        if number % every or path.suffix in SKIPPED or "/changelog" in name.lower():
            continue
        yield from texts_of(path, name)


def texts_of(path: Path, name: str) -> Iterator[tuple[str, str]]:
    """The texts of a file: several of a fortune file, one of any other, none of what is no text."""
    try:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except OSError:
        return
    if b"\0" in data[:4096]:
        return
    suffix = Path(name.removesuffix(".gz")).suffix
    text = data.decode("utf-8", "replace")
    if suffix in (".html", ".htm", ".xhtml"):
        text = plain_html(text)
    elif "/man/" in name:
        text = plain_manual(text)
    elif "/games/fortunes/" in name and not suffix:
        for number, part in enumerate(text.split("\n%\n")):
            if part.strip():
                yield f"{name}#{number}", part.strip()
        return
    text = text.strip()
    if 20 <= len(text) <= LONGEST:
        yield name, text


def plain_html(html: str) -> str:
    """All visible text of a page, a line for each block."""
    from lxml import etree
    from lxml.html import HTMLParser, document_fromstring

    try:
        tree = document_fromstring(html.encode(), parser=HTMLParser(encoding="utf-8"))
    except (etree.ParserError, ValueError):
        return ""
    pieces: list[str] = []
    for element in tree.iter():
        name = element.tag if isinstance(element.tag, str) else "script"
        if name in BLOCKS:
            pieces.append("\n")
        if name not in HIDDEN and element.text:
            pieces.append(element.text)
        if element.tail:
            pieces.append(element.tail)
    text = re.sub(r"[ \t\r\f\v]*\n\s*\n\s*", "\n\n", "".join(pieces))
    return text.encode("utf-8", "replace").decode()


def plain_manual(source: str) -> str:
    """A manual page's words without its macros: good enough for running text."""
    lines = []
    for line in source.splitlines():
        if line.startswith(('.\\"', "'\\\"", ".TH", ".ds", ".de", ".if", ".ie", ".el", ".nr")):
            continue
        plain = re.sub(r"^[.'][A-Za-z]+ ?", "", line)
        plain = re.sub(r"\\f[A-Z]|\\f\([A-Z]+|\\s[-+]?\d|\\&|\\\(..|\\[|^]", "", plain).replace("\\-", "-")
        lines.append(plain.replace('"', "") if line.startswith(".") else plain)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def write_package(folder: Path, name: str, every: int) -> tuple[int, int]:
    """Writes a package's documents as JSONL; returns how many there are and their bytes of text."""
    path = folder / f"{name}.jsonl"
    count = size = 0
    with open(path.with_suffix(".part"), "w", encoding="utf-8") as stream:
        for mark, text in documents(folder.parent / "tree" / name, every):
            row = {"id": f"{name}/{mark}", "text": text, "source": name}
            stream.write(json.dumps(row, ensure_ascii=False) + "\n")
            count, size = count + 1, size + len(text.encode("utf-8", "replace"))
    path.with_suffix(".part").rename(path)
    return count, size


def corpus(*, small: bool = False, folder: Path = CACHE) -> Path:
    """The folder of JSONL files, one a package, made where it is not there; `counts.json` lies beside it."""
    target = folder / ("small" if small else "full")
    counts = target / "counts.json"
    if not counts.exists():
        missing = fetch(folder)
        names = [name for name in PACKAGES if name not in missing]
        if missing:
            sys.stderr.write(f"not to be had here: {', '.join(missing)}\n")
        target.mkdir(parents=True, exist_ok=True)
        every = SMALL_EVERY if small else 1
        with ProcessPoolExecutor(1) as pool:
            found = list(pool.map(write_package, [target] * len(names), names, [every] * len(names)))
        by_name = {
            name: {"documents": count, "bytes": size}
            for name, (count, size) in zip(names, found, strict=True)
        }
        counts.with_suffix(".part").write_text(json.dumps(by_name, indent=1))
        counts.with_suffix(".part").rename(counts)
    return target


def main() -> None:
    """Makes the corpus and prints its counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="about 12 MB instead of 250")
    parser.add_argument("--folder", type=Path, default=CACHE)
    options = parser.parse_args()
    target = corpus(small=options.small, folder=options.folder)
    counts = json.loads((target / "counts.json").read_text())
    whole = {key: sum(entry[key] for entry in counts.values()) for key in ("documents", "bytes")}
    print(json.dumps({"folder": str(target), **whole, "packages": counts}, indent=1))


if __name__ == "__main__":
    main()
