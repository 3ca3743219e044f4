"""`README.md` with the hub's YAML front matter, and `croissant.json` beside it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from l3_ylink import __version__
from l3_ylink._kit.files import atomic_write
from l3_ylink.datakit.documents.store import disk
from l3_ylink.datakit.quality.rules import RULES, Kind, Rule
from l3_ylink.datakit.steps.judge import Quality

from .contents import Contents, read_contents
from .croissant import croissant
from .licences import hub_licence

if TYPE_CHECKING:
    from huggingface_hub import DatasetCardData

CARD = "README.md"
CROISSANT = "croissant.json"
SIZES = ((10**3, "n<1K"), (10**4, "1K<n<10K"), (10**5, "10K<n<100K"), (10**6, "100K<n<1M"),
         (10**7, "1M<n<10M"), (10**8, "10M<n<100M"), (10**9, "100M<n<1B"), (10**10, "1B<n<10B"),
         (10**11, "10B<n<100B"), (10**12, "100B<n<1T"))  # fmt: skip
#: Codes of kinds of text that are no language's.
NO_LANGUAGE = ("und", "mixed", "code")


def write_card(folder: Path, date: dt.date | None = None) -> tuple[Path, Path]:
    """Writes the card of a finished run and its Croissant into the run's folder; returns both paths.

    `date`: the day of publication; today's by default.
    """
    contents = read_contents(folder)
    day = (date or dt.datetime.now(dt.UTC).date()).isoformat()
    description = describe(contents)
    card, machine = folder / CARD, folder / CROISSANT
    value = croissant(contents, description, day)
    with disk(card):
        atomic_write(card, render(contents, description))
        atomic_write(machine, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    return card, machine


def describe(contents: Contents) -> str:
    """One sentence on the data set."""
    seen = contents.text.steps[0].seen if contents.text.steps else contents.text.rows
    tokens = f" ({contents.tokens.tokens:,} tokens)" if contents.tokens and contents.tokens.tokens else ""
    return (
        f"{contents.text.rows:,} documents{tokens} in {', '.join(contents.languages) or 'no language'}, kept "
        f"of {seen:,} by a recipe in which every rule, threshold and yield is written down."
    )


def front_matter(contents: Contents) -> DatasetCardData:
    """The hub's metadata."""
    from huggingface_hub import DatasetCardData

    licences = [source.licence for source in contents.sources if source.kept]
    spoken = [name for name in contents.languages if name not in NO_LANGUAGE]
    plain = sorted({name.partition("-")[0] for name in spoken})
    found: dict[str, Any] = {
        "pretty_name": contents.text.name,
        "license": hub_licence(licences) or ["unknown"],
        "language": plain,
        "language_bcp47": sorted(name for name in spoken if "-" in name),
        "multilinguality": "multilingual" if len(plain) > 1 else "monolingual",
        "size_categories": next((name for most, name in SIZES if contents.text.rows < most), "n>1T"),
        "task_categories": ["text-generation"],
        "annotations_creators": ["no-annotation"],
        "source_datasets": ["original"],
        "tags": ["croissant"],
        "configs": configs(contents),
    }
    return DatasetCardData(**{name: value for name, value in found.items() if value})


def configs(contents: Contents) -> list[dict[str, Any]]:
    """What `datasets.load_dataset` can load from the folder, by name."""
    kind = "parquet" if any(s.uri.endswith(".parquet") for s in contents.text.shards) else "jsonl"
    found: list[dict[str, Any]] = []
    if contents.text.shards:
        files = [{"split": "train", "path": f"text/*.{kind}"}]
        found.append({"config_name": "text", "data_files": files, "default": True})
    if contents.instructions is not None:
        paths = [f"instructions/{shard.uri}" for shard in contents.instructions.shards if shard.rows]
        if paths:
            found.append({"config_name": "instructions", "data_files": [{"split": "train", "path": paths}]})
    return found


def render(contents: Contents, description: str) -> str:
    """The whole card."""
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent.parent / "templates"),
        autoescape=False,  # noqa: S701 (Markdown; names are checked by the recipe, others are in code marks)
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["cell"] = cell
    steps = {step.step: step for step in contents.plan.recipe.steps}
    body = environment.get_template("card.md").render(
        about=contents,
        description=description,
        licences=contents.licences,
        steps=steps,
        rules=_rules(contents),
        settings=_settings(contents),
        version=__version__,
    )
    return f"---\n{front_matter(contents).to_yaml()}\n---\n\n{body}"


def _settings(contents: Contents) -> dict[str, str]:
    """Each step's settings in words; its thresholds have a table of their own."""
    return {
        step.step: "; ".join(
            f"{name} {value}"
            for name, value in step.model_dump(mode="json", exclude={"step", "thresholds"}).items()
        )
        for step in contents.plan.recipe.steps
    }


def _rules(contents: Contents) -> list[tuple[Rule, list[float | str]]]:
    """The quality rules that say something, with their bounds by kind of language."""
    step: Quality | None = contents.plan.recipe.find(Quality)
    kinds: tuple[Kind, ...] = ("en", "zh", "other")
    found: list[tuple[Rule, list[float | str]]] = []
    for rule in RULES if step is not None else ():
        assert step is not None
        bounds = [step.threshold(rule, kind) for kind in kinds]
        if any(bound is not None for bound in bounds):
            found.append((rule, ["–" if bound is None else bound for bound in bounds]))
    return found


def cell(value: object) -> str:
    """Text that cannot break a Markdown table or smuggle in markup."""
    text = " ".join(str(value).split())
    for mark in "\\`*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text
