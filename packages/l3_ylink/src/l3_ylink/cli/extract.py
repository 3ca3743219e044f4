"""`ylink data extract`: files to text, Markdown, HTML or blocks, with the place that each piece came from."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from l3_ylink._kit.command_line import err, out, show_json
from l3_ylink._kit.problems import BadInput, Failed, NotFound

if TYPE_CHECKING:
    from l3_ylink.datakit.fileqa.blocks import Block, FileDocument
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
    from l3_ylink.datakit.fileqa.blocks import FileDocument
    from l3_ylink.datakit.fileqa.document import Reading, file_format, read_document, stream_blocks
    from l3_ylink.datakit.fileqa.limits import Limits

    form = _form(markdown=markdown, html=html)
    paths = list(_files(files))
    limits = Limits(page_seconds=page_seconds)
    failed, documents = 0, []
    with _progress(len(paths)) as tell:
        for number, path in enumerate(paths, 1):
            tell(f"{number}/{len(paths)} {path.name}")
            if as_json:
                document = read_document(path, ocr=ocr, limits=limits)
                documents.append(document.as_json())
            else:
                document = FileDocument(str(path), file_format(path))
                blocks = Reading(document, stream_blocks(path, ocr=ocr, limits=limits))
                _write(path, blocks, form, out_folder, with_map=source_map)
            failed += document.error is not None
            _report(document)
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


def _write(path: Path, blocks: Iterable[Block], form: Form, folder: Path | None, *, with_map: bool) -> None:
    """Prints or writes block after block; a file appears when it is whole, or not at all."""
    from l3_ylink.datakit.fileqa.render import render_parts

    if folder is None:
        for place, part in _placed(render_parts(blocks, form)):
            print("".join(_map_lines(path, part, place)) if with_map else part.text, end="")
        return
    folder.mkdir(parents=True, exist_ok=True)
    target, places = folder / (path.name + ENDINGS[form]), folder / (path.name + ".map.jsonl")
    fresh = [file.with_name(f".{file.name}.tmp") for file in (target, places)]
    empty = True
    try:
        with fresh[0].open("w", encoding="utf-8") as text, fresh[1].open("w", encoding="utf-8") as lines:
            for place, part in _placed(render_parts(blocks, form)):
                text.write(part.text)
                lines.writelines(_map_lines(path, part, place) if with_map else ())
                empty = False
        if not empty:
            if with_map:
                fresh[1].replace(places)
            fresh[0].replace(target)
            out.print(str(target), soft_wrap=True, markup=False)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise Failed(
            f"no space left while writing {target}", do="free some space, or give another --out"
        ) from error
    finally:
        for file in fresh:
            file.unlink(missing_ok=True)


def _placed(parts: Iterable[Rendered]) -> Iterator[tuple[int, Rendered]]:
    place = 0
    for part in parts:
        yield place, part
        place += len(part.text)


def _map_lines(path: Path, part: Rendered, place: int) -> Iterator[str]:
    for span in part.spans:
        row = {"file": str(path), "text": part.text[span.start : span.end], **span.moved(place).as_json()}
        yield json.dumps(row, ensure_ascii=False) + "\n"
