"""`ylink data classifier` and `ylink data perplexity`: train, look at and apply models of quality."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import typer

from l3_ylink._kit.command_line import new_app, out, show, show_json

classifier = new_app("Classifiers of texts: train, calibrate, label by a language model, apply.")
perplexity = new_app("n-gram models by modified Kneser-Ney: train, score, write as ARPA.")

JSON = typer.Option(False, "--json", help="print JSON")
TEXT = typer.Option("text", "--text-field", help="the field with the text")
MODEL = typer.Argument(help="the folder of the model")


@classifier.command("train")
def train_classifier(
    rows: Path = typer.Argument(help="JSONL with a text and a label a line, plain or .gz"),
    *,
    model: Path = typer.Option(..., "--out", help="folder for the classifier"),
    positive: str = typer.Option(..., help="the label whose probability is the score"),
    kind: str = typer.Option("ngrams", help="ngrams (built in) or fasttext (extra `classify`)"),
    calibration: str = typer.Option("isotonic", help="isotonic, platt or none"),
    longest: int = typer.Option(1_000, min=1, help="words (Chinese: characters) of a text to look at"),
    epochs: int = typer.Option(5, min=1, help="times each row is learned from"),
    weights: int | None = typer.Option(None, min=1, help="keep the largest weights only, for a small file"),
    seed: int = typer.Option(1, help="seed; the same rows and seed give the same classifier"),
    text_field: str = TEXT,
    label_field: str = typer.Option("label", "--label-field", help="the field with the label"),
    as_json: bool = JSON,
) -> None:
    """Trains a classifier from labelled texts, calibrates it on held-out ones and reports on others."""
    from l3_ylink.datakit.quality.classifier import Training, train
    from l3_ylink.datakit.quality.labelled import read_examples

    how = Training(
        kind=_one_of("--kind", kind, ("ngrams", "fasttext")),
        positive=positive,
        calibration=_one_of("--calibration", calibration, ("isotonic", "platt", "none")),
        longest=longest,
        epochs=epochs,
        most_weights=weights,
        seed=seed,
    )
    _report(train(read_examples(rows, text_field, label_field), model, how), as_json=as_json)


@classifier.command("report")
def report_classifier(model: Path = MODEL, as_json: bool = JSON) -> None:
    """How well a classifier does on texts it did not learn from: agreement and reliability."""
    from l3_ylink.datakit.quality.classifier import load

    _report(load(model), as_json=as_json)


@classifier.command("apply")
def apply_classifier(
    model: Path = MODEL,
    rows: Path = typer.Argument(help="JSONL with a text a line, plain or .gz"),
    text_field: str = TEXT,
) -> None:
    """Prints every row with its `score` (calibrated) and `label`, as JSONL on the standard output."""
    from l3_ylink.datakit.quality.classifier import load

    loaded = load(model)
    for some in _groups(rows, text_field):
        scores, labels = loaded.score(_units([text for _, text in some]))
        for (row, _), score, label in zip(some, scores.tolist(), labels, strict=True):
            _line({**row, "score": round(score, 6), "label": label})


@classifier.command("label")
def label_rows(
    rows: Path = typer.Argument(help="JSONL with a text a line, plain or .gz"),
    *,
    labels: Path = typer.Option(..., "--out", help="JSONL file for the rows with their scores"),
    url: str = typer.Option(..., help="an OpenAI-compatible server, up to and with /v1"),
    model: str = typer.Option(..., help="the model's name on the server"),
    key_env: str = typer.Option("OPENAI_API_KEY", help="environment variable that holds the server's key"),
    times: int = typer.Option(
        1, min=1, max=9, help="scores a text; with two the model is compared with itself"
    ),
    rubric: Path | None = typer.Option(None, help="a file with other instructions than the built-in ones"),
    requests: int | None = typer.Option(None, min=1, help="most questions over all starts"),
    tokens: int | None = typer.Option(None, min=1, help="most tokens over all starts"),
    threads: int = typer.Option(8, min=1, max=256, help="questions at once"),
    text_field: str = TEXT,
    as_json: bool = JSON,
) -> None:
    """Has a language model score texts from 0 to 5; the same command again goes on and pays nothing twice."""
    from contextlib import closing
    from dataclasses import asdict

    from l3_ylink.datakit.datagen.caller import Budget, Caller
    from l3_ylink.datakit.datagen.client import ModelSpec
    from l3_ylink.datakit.quality.labelled import texts_of
    from l3_ylink.datakit.quality.labels import label, write_labels

    spec = _checked(ModelSpec, url=url, name=model, key_env=key_env)
    words = None if rubric is None else rubric.read_text("utf-8")
    cache = labels.with_name(f"{labels.stem}.cache.sqlite")
    with closing(Caller(spec, cache, Budget(requests=requests, tokens=tokens))) as caller:
        pairs = ((row, text) for _, row, text in texts_of(rows, text_field))
        found = write_labels(label(pairs, caller, times=times, rubric=words, threads=threads), labels)
    if as_json:
        show_json(asdict(found))
        return
    counts = ", ".join(f"{count} of {score}" for score, count in found.scores.items())
    out.print(f"{found.labelled} rows scored: {counts or 'none'}")
    for reason, count in found.rejected.items():
        out.print(f"{count} rejected: {reason}", markup=False)
    if found.itself:
        out.print(f"the model with itself: kappa {_number(found.itself['kappa'])}")
    if found.spent:
        out.print(f"the budget of {found.spent} is spent: raise it to go on")


@classifier.command("distil")
def distil_labels(
    labels: Path = typer.Argument(help="JSONL with a text and a score a line, as `label` writes"),
    *,
    model: Path = typer.Option(..., "--out", help="folder for the classifier"),
    least: int = typer.Option(3, min=1, max=5, help="score from which a text is good"),
    gold: Path | None = typer.Option(None, help="JSONL of the same form, scored by people"),
    kind: str = typer.Option("ngrams", help="ngrams (built in) or fasttext (extra `classify`)"),
    calibration: str = typer.Option("isotonic", help="isotonic, platt or none"),
    seed: int = typer.Option(1, help="seed; the same rows and seed give the same classifier"),
    text_field: str = TEXT,
    score_field: str = typer.Option("score", "--score-field", help="the field with the score"),
    as_json: bool = JSON,
) -> None:
    """Trains a small classifier on a language model's scores and reports who agrees with whom."""
    from l3_ylink.datakit.quality.classifier import Training
    from l3_ylink.datakit.quality.distil import GOOD, distil

    how = Training(
        kind=_one_of("--kind", kind, ("ngrams", "fasttext")),
        positive=GOOD,
        calibration=_one_of("--calibration", calibration, ("isotonic", "platt", "none")),
        seed=seed,
    )
    made = distil(labels, model, how, least=least, gold=gold, text_field=text_field, score_field=score_field)
    _report(made, as_json=as_json)


@perplexity.command("train")
def train_perplexity(
    texts: list[Path] = typer.Argument(help="files or folders: .jsonl, .jsonl.gz, .txt, .parquet"),
    model: Path = typer.Option(..., "--out", help="folder for the model"),
    order: int = typer.Option(3, min=1, max=5, help="words (Chinese: characters) of the longest n-gram"),
    vocabulary: int = typer.Option(1_000_000, min=1, help="most words; at most 2^(64/order)"),
    most: int = typer.Option(20_000_000, min=1, help="n-grams kept an order, the frequent ones"),
    text_field: str = TEXT,
    as_json: bool = JSON,
) -> None:
    """Trains an n-gram model in bounded memory, whatever the number of texts."""
    from l3_ylink.datakit.quality.corpus import read_texts
    from l3_ylink.datakit.quality.ngram_training import train

    made = train(
        lambda: read_texts(texts, text_field),
        model,
        order=order,
        vocabulary=vocabulary,
        most=most,
        source={"texts": [path.name for path in texts]},
    )
    if as_json:
        show_json({name: value for name, value in made.about.items() if name != "probe"})
        return
    counts = ", ".join(f"{count} of {n}" for n, count in enumerate(made.about["ngrams"], 1))
    out.print(f"{made.about['words']} words in {made.about['sentences']} sentences; n-grams: {counts}")
    out.print(f"model {model}", soft_wrap=True)


@perplexity.command("score")
def score_perplexity(
    model: Path = MODEL,
    rows: Path = typer.Argument(help="JSONL with a text a line, plain or .gz"),
    text_field: str = TEXT,
) -> None:
    """Prints every row with `perplexity` and `unknown_words`, as JSONL on the standard output."""
    from l3_ylink.datakit.quality.perplexity import Model

    loaded = Model(model)
    for some in _groups(rows, text_field):
        scores = loaded.score(_units([text for _, text in some]))
        values = zip(some, scores.perplexity.tolist(), scores.unknown, scores.words, strict=True)
        for (row, _), value, unknown, words in values:
            share = round(int(unknown) / max(int(words), 1), 6)
            _line({**row, "perplexity": round(value, 3), "unknown_words": share})


@perplexity.command("arpa")
def write_arpa(
    model: Path = MODEL, file: Path = typer.Option(..., "--out", help="the ARPA file to write")
) -> None:
    """Writes a model in the ARPA format, which kenlm and SRILM read."""
    from l3_ylink.datakit.quality.arpa import write_arpa as write
    from l3_ylink.datakit.quality.perplexity import Model

    write(Model(model), file)
    out.print(f"wrote {file}", soft_wrap=True)


def contamination(
    folder: Path = typer.Argument(help="the --out folder of a run with a step decontaminate"),
    most: int = typer.Option(50, min=1, help="how many items to print"),
    as_json: bool = JSON,
) -> None:
    """What a run found of each evaluation item: documents that share runs with it, and how much."""
    from dataclasses import asdict

    from l3_ylink.datakit.purify.contamination_report import contamination_report

    found = contamination_report(folder)
    if as_json:
        show_json(asdict(found))
        return
    out.print(found.method)
    show(
        [asdict(entry) for entry in found.sets],
        ("name", "items", "too_short", "found", "documents"),
        as_json=False,
    )
    if found.items:
        show(
            [asdict(item) for item in found.items[:most]],
            ("item", "documents", "kept", "share", "examples"),
            as_json=False,
        )
        out.print(f"{min(most, len(found.items))} of {len(found.items)} items")


def _one_of(option: str, value: str, allowed: tuple[str, ...]) -> Any:
    from l3_ylink._kit.problems import BadInput

    if value not in allowed:
        raise BadInput(f"{value!r} is none of {', '.join(allowed)}", field=option)
    return value


def _checked(kind: Any, **values: Any) -> Any:
    from pydantic import ValidationError

    from l3_ylink._kit.documents import describe, first_field
    from l3_ylink._kit.problems import BadInput

    try:
        return kind(**values)
    except ValidationError as error:
        raise BadInput(describe(error), field=first_field(error)) from error


def _groups(rows: Path, text_field: str) -> Any:
    """Rows with their texts in groups of bounded size."""
    from l3_ylink.datakit.quality.labelled import texts_of

    some: list[tuple[dict[str, Any], str]] = []
    size = 0
    for _, row, text in texts_of(rows, text_field):
        some.append((row, text))
        size += len(text)
        if size > 1_000_000:
            yield some
            some, size = [], 0
    if some:
        yield some


def _units(texts: list[str]) -> Any:
    from l3_ylink.datakit.quality.units import split_units

    return split_units(texts)


def _line(row: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")


def _report(made: Any, *, as_json: bool) -> None:
    report = made.report
    if as_json:
        show_json({"labels": made.labels, "positive": made.positive, **report})
        return
    rows, test = report["rows"], report["test"]
    out.print(f"{rows['train']} rows learned from, {rows['calibrate']} to calibrate, {rows['test']} to test")
    show(test["labels"], ("label", "count", "recall", "precision"), as_json=False)
    out.print(f"right {_number(test['equal'])}, kappa {_number(test['kappa'])}")
    if gold := report.get("source", {}).get("gold"):
        good = gold["good"]
        out.print(
            f"labeller against people on {gold['texts']} texts: right {_number(good['equal'])}, "
            f"kappa {_number(good['kappa'])}, of the scores {_number(gold['scores']['kappa_quadratic'])}"
        )
    for name, found in report["reliability"].items():
        out.print(
            f"{name}: AUC {_number(found['auc'])}, Brier {_number(found['brier'])}, "
            f"calibration error {_number(found['error'])}"
        )
    show(
        report["reliability"]["calibrated"]["bins"],
        ("from", "to", "count", "stated", "seen"),
        as_json=False,
        title="probability stated and seen",
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
