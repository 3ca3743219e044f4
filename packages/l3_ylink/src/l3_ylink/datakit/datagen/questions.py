"""Questions with answers from documents: each cites its source letter by letter, with its place there.

What is cited must be found verbatim in the passage that the model was given; a row whose citation is not
there is rejected, whatever it says.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, PrivateAttr

from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.fileqa.blocks import Span
from l3_ylink.datakit.fileqa.decode import decode
from l3_ylink.datakit.fileqa.document import FORMATS, read_document
from l3_ylink.datakit.fileqa.render import Rendered, render
from l3_ylink.datakit.gather.listing import matches
from l3_ylink.datakit.gather.places import list_files

from .base import Job, Made, Method, Talk, Unfit, key_of
from .parse import json_in
from .prompts import prompt
from .similar import units_of

TEXTS = {".txt", ".text", ""}


class Passage(NamedTuple):
    """A piece of a document's text: characters `start` to `end`."""

    path: str
    sha256: str
    start: int
    end: int


class DocumentQa(Method):
    """Questions that passages of documents answer, each with the span that the answer rests on."""

    method: Literal["document_qa"] = "document_qa"
    documents: list[str] = Field(
        default_factory=lambda: ["**"], min_length=1, description="patterns below the input"
    )
    passage: int = Field(1_500, ge=200, le=50_000, description="characters that the model sees at once")
    shortest: int = Field(200, ge=1, description="characters of a passage; shorter ones are left out")
    each: int = Field(3, ge=1, le=20, description="questions of a passage")
    quote: int = Field(8, ge=1, description="least characters of what is cited")
    support: float = Field(
        0.5, ge=0, le=1, description="share of the answer's words that stand in its passage"
    )
    ocr: bool = False
    _folder: Path = PrivateAttr(default_factory=Path)
    _texts: dict[str, Rendered] = PrivateAttr(default_factory=dict)
    _lock: Any = PrivateAttr(default_factory=threading.Lock)

    def prepare(self, folder: Path, seed: int) -> None:  # noqa: ARG002 (nothing is drawn)
        """Remembers where the documents are."""
        self._folder = folder
        if not any(True for _ in self._files()):
            raise BadInput(
                "names no documents", field="method.documents", do=f"check the patterns below {folder}"
            )

    def _files(self) -> Iterator[str]:
        for file in list_files(self._folder):
            suffix = Path(file.name.lower()).suffix
            named = any(matches(file.name, pattern) for pattern in self.documents)
            if named and (suffix in FORMATS or suffix in TEXTS):
                yield file.name

    def jobs(self, number: int, kept: Sequence[Made], wanted: int) -> list[Job]:  # noqa: ARG002
        """One for each passage; a file that cannot be read is a job of its own, which says so."""
        if number:
            return []
        jobs = []
        for path in self._files():
            sha256 = hashlib.sha256((self._folder / path).read_bytes()).hexdigest()
            text, error = self._read(path)
            if error:
                jobs.append(Job(key_of(path, sha256), {"path": path, "error": error}))
            for start, end in passages(text.text, self.passage, self.shortest):
                place = Passage(path, sha256, start, end)
                jobs.append(Job(key_of(*place, self.each), place._asdict()))
        return jobs

    def _read(self, path: str) -> tuple[Rendered, str]:
        if Path(path.lower()).suffix in TEXTS:
            text = decode((self._folder / path).read_bytes()).text
            return Rendered(text, (Span(0, len(text), chars=(0, len(text))),)), ""
        document = read_document(self._folder / path, ocr=self.ocr)
        return render(document.blocks), document.error or ""

    def _text(self, path: str) -> Rendered:
        with self._lock:  # one file is read at a time, and jobs come file by file
            if path not in self._texts:
                self._texts = {path: self._read(path)[0]}
            return self._texts[path]

    def tasks(self, job: Job, talk: Talk) -> list[Made]:
        """Asks for questions and checks what each of them cites."""
        if "error" in job.data:
            return [Made(job.key, [], {"path": job.data["path"]}, "unreadable", job.data["error"])]
        place = Passage(**job.data)
        whole = self._text(place.path)
        passage = whole.text[place.start : place.end]
        text = talk.ask(prompt("questions", talk.language, count=self.each, text=passage), cut=True)
        found = json_in(text)
        if isinstance(found, dict):
            found = next((value for value in found.values() if isinstance(value, list)), [found])
        if not isinstance(found, list) or not found:
            raise Unfit("no_json", text)
        rows = [entry for entry in found if isinstance(entry, dict)][: self.each]
        if not rows:
            raise Unfit("no_json", text)
        return [self._row(f"{job.key}-{number}", row, place, whole) for number, row in enumerate(rows)]

    def _row(self, key: str, row: dict[str, Any], place: Passage, whole: Rendered) -> Made:
        question, answer, quote = (
            str(row.get(name) or "").strip() for name in ("question", "answer", "quote")
        )
        made = Made(
            key,
            [{"role": "user", "content": question}, {"role": "assistant", "content": answer}],
            {"method": self.method, "path": place.path, "sha256": place.sha256, "quote": quote},
        )
        if not question or not answer:
            return made.rejected("no_question" if not question else "no_answer")
        if len(quote) < self.quote:
            return made.rejected("quote_too_short", quote)
        start = whole.text.find(quote, place.start, place.end)
        if start < 0:
            return made.rejected("quote_not_found", quote)
        passage = set(units_of(whole.text[place.start : place.end]))
        said = units_of(answer)
        share = sum(unit in passage for unit in said) / len(said) if said else 0.0
        if share < self.support:
            return made.rejected("unsupported", f"{share:.2f} of the answer's words stand in the passage")
        sources = [span.as_json() for span in cited(whole, start, start + len(quote))]
        about = {"start": start, "end": start + len(quote), "sources": sources, "support": round(share, 3)}
        return made._replace(meta={**made.meta, **about})


def cited(text: Rendered, start: int, end: int) -> Iterator[Span]:
    """Where characters of a text stand in its file: to the character where the file holds the same ones."""
    for span in text.spans:
        if span.end > start and span.start < end:
            first, after = max(span.start, start), min(span.end, end)
            found = span._replace(start=first, end=after)
            if span.chars is not None and span.chars[1] - span.chars[0] == span.end - span.start:
                place = span.chars[0] - span.start
                found = found._replace(chars=(place + first, place + after))
            yield found


def passages(text: str, longest: int, shortest: int) -> Iterator[tuple[int, int]]:
    """Pieces of a text, cut where a paragraph, a line or a sentence ends; together they are the text."""
    start = 0
    while start < len(text):
        end = min(len(text), start + longest)
        if end < len(text):
            least = start + longest // 2
            ends = (text.rfind(mark, least, end) for mark in ("\n\n", "\n", "。", ". ", " "))
            end = next((place + 1 for place in ends if place >= 0), end)
        if len(text[start:end].strip()) >= shortest:
            yield start, end
        start = end
