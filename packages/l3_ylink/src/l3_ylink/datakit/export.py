"""What a run hands on: kept text and tokens, each with its `dataset-manifest/v1`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from l3_ylink import __version__
from l3_ylink._kit.documents import Producer, digest_of, digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import ContaminationCheck, DatasetManifest, Shard, Source

from .decide import Decisions, kept_texts
from .documents.store import Signals, disk
from .engine import run_tasks
from .plan import RunPlan
from .steps.contamination import SEPARATOR, Decontaminate
from .steps.tokenise import Tokenise
from .transform.merge import merge_tokens
from .transform.shards import INFO, STATE, describe_arrow, write_shard
from .transform.tokens import committed_part, drop_part, make_tokenizer, part_path, plan_parts

MANIFEST = "dataset-manifest.json"
TEXT_FOLDER = "text"
INSTRUCTIONS, PREFERENCES = "instructions", "preferences"
PROBED = 64
PROBED_CHARACTERS = 2_000
"""Documents on which the two tokenisers are compared before the fast one is believed."""

COLUMNS = ("id", "source", "path", "format", "title", "language")

Tell = Callable[[int, int], None]


@dataclass
class Tally:
    """What a manifest counts, summed block by block."""

    languages: Counter[str] = field(default_factory=Counter)
    documents: Counter[str] = field(default_factory=Counter)
    contaminated: int = 0
    items: set[str] = field(default_factory=set)

    def add(self, values: Mapping[str, Any], kept: list[int]) -> None:
        """Adds a stored block, of which some rows were kept."""
        if "language" in values:
            languages = values["language"]
            self.languages.update(languages[row] for row in kept)
        self.documents.update(values["source"])
        hits = [names for names in values["contaminated_by"] if names] if "contaminated_by" in values else []
        self.contaminated += len(hits)
        self.items.update(name for names in hits for name in names.split(SEPARATOR))


def export_text(plan: RunPlan, signals: Signals, decisions: Decisions, tell: Tell) -> DatasetManifest:
    """Writes the kept text, one shard a stored block, and its manifest (kind `text`)."""
    folder = plan.folder / TEXT_FOLDER
    shards: list[Shard] = []
    tally = Tally()
    names: list[str] = []
    for number in range(len(signals.blocks)):
        stored = signals.columns(number)
        names = [name for name in COLUMNS if name in stored]
        kept, texts = kept_texts(signals, decisions, number)
        tally.add(stored, kept.tolist())
        values = {name: [stored[name][row] for row in kept.tolist()] for name in names}
        values["text"] = texts
        for kind in plan.recipe.text_formats if texts else ():
            path = write_shard(folder, number, kind, values)
            shards.append(_shard(path, folder, len(texts) if kind == plan.recipe.text_formats[0] else 0))
        tell(number + 1, len(signals.blocks))
    if "arrow" in plan.recipe.text_formats:
        arrow = {shard.uri: shard.sha256 for shard in shards if shard.uri.endswith(".arrow")}
        shards += [_shard(path, folder, 0) for path in describe_arrow(folder, [*names, "text"], arrow)]
    _remove_others(folder, shards)
    manifest = _manifest(plan, decisions, shards, "text", dict.fromkeys((*names, "text"), "string"), tally)
    with disk(folder):
        manifest.write(folder / MANIFEST)
    return manifest


def export_tokens(
    plan: RunPlan, signals: Signals, decisions: Decisions, text: DatasetManifest, workers: int, tell: Tell
) -> DatasetManifest:
    """Trains or takes the tokeniser, writes the token files and the run's manifest (kind `tokens`)."""
    step: Tokenise = plan.recipe.find(Tokenise)
    if not decisions.kept_count:
        raise BadInput(
            "no document was kept: nothing to tokenise", do="look at `ylink data report`, ease the thresholds"
        )
    tokenizer = make_tokenizer(step, plan.input, plan.folder, _texts(signals, decisions))
    digest = digest_of_file(tokenizer)
    probes = [text[:PROBED_CHARACTERS] for text in islice(_texts(signals, decisions), PROBED)]
    dtype = plan_parts(plan.folder, step, tokenizer, probes)
    sources = [shard for shard in text.shards if shard.rows]
    _parts(plan, sources, digest, step, workers, tell)
    prefix = plan.folder / "tokens" / "text"
    rows, tokens = merge_tokens(prefix, [part_path(plan.folder, number) for number in range(len(sources))])
    shards = [
        _shard(prefix.with_suffix(".bin"), plan.folder, rows, tokens),
        _shard(prefix.with_suffix(".idx"), plan.folder, 0),
    ]
    manifest = text.model_copy(
        update={
            "kind": "tokens",
            "columns": {"tokens": str(dtype)},
            "shards": shards,
            "tokens": tokens,
            "tokenizer_digest": digest,
            "inputs": [text.reference()],
        }
    )
    with disk(plan.folder):
        manifest.write(plan.folder / MANIFEST)
    for number in range(len(sources)):
        drop_part(plan.folder, number)
    return manifest


def _texts(signals: Signals, decisions: Decisions) -> Iterator[str]:
    """The kept texts, in order."""
    for number in range(len(signals.blocks)):
        yield from kept_texts(signals, decisions, number)[1]


def _parts(
    plan: RunPlan, sources: list[Shard], tokenizer: str, step: Tokenise, workers: int, tell: Tell
) -> None:
    """Tokenises every shard of text into a part; parts that are whole already are left."""
    tasks = []
    for number, shard in enumerate(sources):
        key = digest_of({"tokenizer": tokenizer, "end": step.end, "text": shard.sha256})
        if not committed_part(plan.folder, number, key):
            path = f"{TEXT_FOLDER}/{shard.uri}"
            tasks.append({"task": "tokenise", "block": number, "text": path, "key": key})
    there = len(sources) - len(tasks)
    for done, _ in enumerate(run_tasks(plan, tasks, workers), there + 1):
        tell(done, len(sources))


def _manifest(
    plan: RunPlan, decisions: Decisions, shards: list[Shard], kind: str, columns: dict[str, str], tally: Tally
) -> DatasetManifest:
    return DatasetManifest(
        producer=Producer(name="l3-ylink", version=__version__),
        name=plan.recipe.name,
        kind=kind,
        languages=dict(sorted(tally.languages.items())),
        columns=columns,
        shards=shards,
        rows=decisions.kept_count,
        recipe_digest=plan.recipe.digest(),
        steps=decisions.funnel,
        sources=_sources(plan, tally.documents),
        contamination=contamination_check(plan, tally.contaminated, sorted(tally.items)),
    )


def _sources(plan: RunPlan, documents: Counter[str]) -> list[Source]:
    size = Counter[str]()
    for block in plan.blocks:
        for piece in block.pieces:
            size[plan.recipe.sources[piece.source].name] += piece.bytes
    return [
        Source(name=s.name, licence=s.licence, url=s.url, documents=documents[s.name], bytes=size[s.name])
        for s in plan.recipe.sources
        if documents[s.name]
    ]


def contamination_check(plan: RunPlan, documents: int, items: list[str]) -> ContaminationCheck | None:
    """What the manifest says of the evaluation sets; None when the recipe has no such step."""
    step: Decontaminate | None = plan.recipe.find(Decontaminate)
    if step is None:
        return None
    against = [entry.name for entry in step.against]
    return ContaminationCheck(method=step.method, against=against, documents_hit=documents, items_hit=items)


def _shard(path: Path, folder: Path, rows: int, tokens: int | None = None) -> Shard:
    return Shard(
        uri=path.relative_to(folder).as_posix(),
        sha256=digest_of_file(path),
        bytes=path.stat().st_size,
        rows=rows,
        tokens=tokens,
    )


def _remove_others(folder: Path, shards: list[Shard]) -> None:
    """Shards of an earlier recipe that this one did not write again."""
    mine = {shard.uri for shard in shards}
    for path in (*folder.glob("part-*"), folder / INFO, folder / STATE):
        if path.name not in mine:
            path.unlink(missing_ok=True)
