"""The instruction and preference sets of a recipe: checked, written in one form, rejects with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from l3_ylink import __version__
from l3_ylink._kit.documents import Producer, digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import DatasetManifest, Shard, Source, StepCount

from .documents.store import disk
from .export import MANIFEST, contamination_check
from .plan import RunPlan
from .purify.contamination import find_hits
from .quality.units import split_units
from .recipe import SampleSet
from .steps.contamination import Decontaminate
from .transform.chat.convert import write_samples
from .transform.chat.read import Read, read_samples
from .transform.chat.sample import Sample

ROWS_AT_ONCE = 1000
LEAKED = "shares_evaluation_items"

SampleKind = Literal["instructions", "preferences"]
COLUMNS = {
    "openai": {"id": "string", "messages": "list<{role, content}>"},
    "sharegpt": {"id": "string", "conversations": "list<{from, value}>"},
    "alpaca": {"id": "string", "instruction": "string", "input": "string", "output": "string"},
    "dpo": {"id": "string", **dict.fromkeys(("prompt", "chosen", "rejected"), "list<{role, content}>")},
    "openai-pairs": {
        "id": "string",
        "input": "{messages}",
        **dict.fromkeys(("preferred_output", "non_preferred_output"), "list<{role, content}>"),
    },
    "kto": {
        "id": "string",
        **dict.fromkeys(("prompt", "completion"), "list<{role, content}>"),
        "label": "bool",
    },
}


@dataclass
class _Tally:
    """What is counted over all sets of a kind."""

    seen: int = 0
    kept: int = 0
    rows: int = 0
    merged: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    shards: list[Shard] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)


def export_samples(plan: RunPlan, kind: SampleKind) -> DatasetManifest | None:
    """Writes `OUT/instructions` or `OUT/preferences`; None when the recipe has no such set."""
    sets: dict[str, Sequence[SampleSet]] = {
        "instructions": plan.recipe.instructions,
        "preferences": plan.recipe.preferences,
    }
    if not sets[kind]:
        return None
    folder = plan.folder / kind
    tally = _Tally()
    columns: dict[str, str] = {}
    for entry in sets[kind]:
        _write_set(plan, folder, entry, tally)
        columns |= COLUMNS[entry.form]
    funnel = StepCount(
        step="validate",
        seen=tally.seen,
        kept=tally.kept,
        dropped=dict(sorted(tally.reasons.items())),
        changed=tally.merged,
    )
    manifest = DatasetManifest(
        producer=Producer(name="l3-ylink", version=__version__),
        name=f"{plan.recipe.name}-{kind}",
        kind=kind,
        columns=columns,
        shards=tally.shards,
        rows=tally.rows,
        recipe_digest=plan.recipe.digest(),
        steps=[funnel],
        sources=tally.sources,
        contamination=contamination_check(plan, tally.reasons[LEAKED], []),
    )
    with disk(folder):
        manifest.write(folder / MANIFEST)
    return manifest


def _write_set(plan: RunPlan, folder: Path, entry: SampleSet, tally: _Tally) -> None:
    source = plan.input / entry.path
    path, rejects = folder / f"{entry.name}.jsonl", folder / "rejects" / f"{entry.name}.jsonl"
    done = write_samples(_judged(plan, entry), path, entry.form, rejects=rejects)
    if not done.read:
        raise BadInput("has no rows", field=str(entry.path), do="give a JSONL file with samples")
    tally.seen += done.read
    tally.kept += done.used
    tally.rows += done.written
    tally.merged += done.merged
    tally.reasons.update(done.rejected)
    size = source.stat().st_size
    tally.sources.append(
        Source(name=entry.name, licence=entry.licence, url=entry.url, documents=done.read, bytes=size)
    )
    tally.shards.append(
        Shard(
            uri=path.relative_to(folder).as_posix(),
            sha256=digest_of_file(path),
            bytes=path.stat().st_size,
            rows=done.written,
        )
    )


def _judged(plan: RunPlan, entry: SampleSet) -> Iterator[tuple[Read, str]]:
    """Rows with the reason why they are rejected, if they are; evaluation items are looked for in batches."""
    step: Decontaminate | None = plan.recipe.find(Decontaminate)
    rows = read_samples(plan.input / entry.path, longest=entry.longest, repeated=entry.repeated)
    while batch := list(islice(rows, ROWS_AT_ONCE)):
        leaked = [False] * len(batch)
        if step is not None:
            hits = find_hits(split_units([_said(row.sample) for row in batch]), step.index)
            leaked = [bool(hit.runs) for hit in hits]
        for row, leak in zip(batch, leaked, strict=True):
            yield row, row.reason or (LEAKED if leak else "")


def _said(sample: Sample | None) -> str:
    if sample is None:
        return ""
    messages = [*sample.messages, *(message for answer in sample.answers for message in answer)]
    return "\n".join(message["content"] for message in messages)
