"""`ylink data extract`: files to text, Markdown, HTML or blocks, with the place that each piece came from."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from l3_ylink._kit.command_line import err, out, show_json
from l3_ylink._kit.files import atomic_write
from l3_ylink._kit.problems import BadInput, NotFound

if TYPE_CHECKING:
    from l3_ylink.datakit.fileqa.blocks import FileDocument
    from l3_ylink.datakit.fileqa.render import Form, Rendered

ENDINGS = {"text": ".txt", "markdown": ".md", "html": ".html"}


def extract(
    files: list[Path] = typer.Argument(help="PDF, DOCX, PPTX, XLSX, EPUB, HTML, Markdown; folders of them"),
    *,
    markdown: bool = typer.Option(False, "--markdown", help="print Markdown"),
    html: bool = typer.Option(False, "--html", help="print HTML"),
    source_map: bool = typer.Option(
        False,
        "--map",
        help="print where each piece of the text stands: file, page, box, characters (JSON Lines)",
    ),
    as_json: bool = typer.Option(False, "--json", help="print the blocks as JSON"),
    out_folder: Path | None = typer.Option(
        None, "--out", help="folder for a file of each document, and its map with --map, instead of printing"
    ),
    ocr: bool = typer.Option(True, help="recognise the text of scanned pages (extra `ocr`)"),
    page_seconds: float = typer.Option(
        20.0, min=0.1, help="CPU seconds that a PDF page may take before it is skipped"
    ),
) -> None:
    """Files to text with headings, lists, code and tables; what cannot be read is reported, the rest done."""
    from l3_ylink.datakit.fileqa.document import read_document
    from l3_ylink.datakit.fileqa.limits import Limits
    from l3_ylink.datakit.fileqa.render import render

    form = _form(markdown=markdown, html=html)
    paths = list(_files(files))
    failed, documents = 0, []
    with _progress(len(paths)) as tell:
        for number, path in enumerate(paths, 1):
            tell(f"{number}/{len(paths)} {path.name}")
            document = read_document(path, ocr=ocr, limits=Limits(page_seconds=page_seconds))
            failed += document.error is not None
            _report(document)
            if as_json:
                documents.append(document.as_json())
            elif document.error is None:
                _write(path, render(document.blocks, form), form, out_folder, with_map=source_map)
    if as_json:
        show_json(documents)
    if failed:
        raise typer.Exit(1)


def _form(*, markdown: bool, html: bool) -> Form:
    if markdown and html:
        raise BadInput("cannot be both", field="--markdown, --html", do="give one of them")
    return "markdown" if markdown else "html" if html else "text"


def _files(given: list[Path]) -> Iterator[Path]:
    """The files, those of folders in the order of their names; all are checked before any is read."""
    from l3_ylink.datakit.fileqa.document import FORMATS, file_format

    for path in given:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.suffix.lower() in FORMATS and p.is_file())
            if not inside:
                raise BadInput("holds no file of a known format", field=str(path), do="give files")
            yield from inside
        elif path.is_file():
            file_format(path)
            yield path
        else:
            raise NotFound("there is no such file", field=str(path), do="give the path of a file")


def _progress(count: int) -> Any:
    """A line on stderr that says which file is read; nothing where stderr is no terminal."""
    bars = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        console=err,
        disable=not err.is_terminal,
        transient=True,
    )
    task = bars.add_task("", total=count)

    class Telling:
        def __enter__(self) -> Any:
            bars.start()
            return lambda words: bars.update(task, description=words, advance=1)

        def __exit__(self, *_: object) -> None:
            bars.stop()

    return Telling()


def _report(document: FileDocument) -> None:
    if document.error is not None:
        err.print(f"{document.path}: not read: {document.error}", markup=False, soft_wrap=True)
    for skipped in document.skipped:
        where = skipped.part or (f"page {skipped.page}" if skipped.page else "")
        err.print(f"{document.path}: {where} skipped: {skipped.reason}", markup=False, soft_wrap=True)


def _write(path: Path, rendered: Rendered, form: Form, folder: Path | None, *, with_map: bool) -> None:
    lines = (
        json.dumps(
            {"file": str(path), "text": rendered.text[s.start : s.end], **s.as_json()}, ensure_ascii=False
        )
        for s in rendered.spans
    )
    if folder is None:
        print("\n".join(lines) if with_map else rendered.text, end="\n" if with_map else "")
        return
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / (path.name + ENDINGS[form])
    atomic_write(target, rendered.text)
    if with_map:
        atomic_write(folder / (path.name + ".map.jsonl"), "\n".join(lines) + "\n")
    out.print(str(target), soft_wrap=True, markup=False)
