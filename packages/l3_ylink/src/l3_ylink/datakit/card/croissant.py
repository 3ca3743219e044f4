"""Croissant 1.0 (MLCommons): the data set for machines, with the digest of every file."""

from __future__ import annotations

from typing import Any

from l3_ylink import __version__
from l3_ylink.documents import Shard

from .contents import Contents

TEXTS = "texts"
CONFORMS = "http://mlcommons.org/croissant/1.0"
CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
MEDIA = {
    ".parquet": "application/x-parquet",
    ".jsonl": "application/jsonlines",
    ".json": "application/json",
    ".tar": "application/x-tar",
}
WORDS = {
    "id": "The document's id: its path in the input, with a row's mark where a file holds several.",
    "source": "The source of the recipe that it came from.",
    "path": "The file of the input.",
    "format": "The file's format.",
    "title": "The document's title, where the file has one.",
    "language": "Language and script, as judged.",
    "text": "The text, cleaned and masked.",
}


def croissant(contents: Contents, description: str, date: str) -> dict[str, Any]:
    """The card as JSON-LD; `date` is the day on which it is published (ISO 8601)."""
    licences = contents.licences
    value: dict[str, Any] = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "name": contents.text.name,
        "conformsTo": CONFORMS,
        "description": description,
        "license": [_licence_url(name) for name in licences.licences],
        "datePublished": date,
        "version": "1.0.0",
        "citeAs": f"{contents.text.name}, made by ylink {__version__} with {contents.text.recipe_digest}",
        "creator": {"@type": "sc:Organization", "name": f"ylink {__version__}"},
        "inLanguage": sorted({language.partition("-")[0] for language in contents.languages}),
        "distribution": [*_sets(contents), *_files(contents)],
        "recordSet": _records(contents),
        "rai:dataCollection": "; ".join(_source_words(contents)),
        "rai:dataPreprocessingProtocol": _protocol(contents),
        "rai:dataLimitations": licences.warnings or ["none known"],
    }
    sources = [source.url for source in contents.sources if source.url]
    return {**value, "isBasedOn": sources} if sources else value


def _licence_url(licence: str) -> str:
    simple = not {" ", "("} & set(licence)
    return f"https://spdx.org/licenses/{licence}.html" if simple else licence


def _source_words(contents: Contents) -> list[str]:
    return [
        f"{source.name} ({source.licence}): {source.kept} of {source.read} documents"
        for source in contents.sources
    ]


def _protocol(contents: Contents) -> list[str]:
    steps = contents.plan.recipe.steps
    settings: dict[str, Any] = {step.step: step.model_dump(mode="json", exclude={"step"}) for step in steps}
    return [
        f"{count.step}: {count.seen} documents in, {count.kept} kept; settings {settings.get(count.step, {})}"
        for count in contents.text.steps
    ]


def _files(contents: Contents) -> list[dict[str, Any]]:
    found = [_file(shard, "text/") for shard in contents.text.shards]
    others = (
        (contents.tokens, ""),
        (contents.instructions, "instructions/"),
        (contents.preferences, "preferences/"),
    )
    for manifest, folder in others:
        found += [_file(shard, folder) for shard in (manifest.shards if manifest else ())]
    return found


def _file(shard: Shard, folder: str) -> dict[str, Any]:
    path = folder + shard.uri
    suffix = "." + path.rpartition(".")[2]
    return {
        "@type": "cr:FileObject",
        "@id": path,
        "name": path,
        "contentUrl": path,
        "contentSize": f"{shard.bytes} B",
        "encodingFormat": MEDIA.get(suffix, "application/octet-stream"),
        "sha256": shard.sha256.removeprefix("sha256:"),
    }


def _sets(contents: Contents) -> list[dict[str, Any]]:
    """The Parquet shards as one set: a pattern, so that a card of thousands of shards stays readable."""
    if not any(shard.uri.endswith(".parquet") for shard in contents.text.shards):
        return []
    return [
        {
            "@type": "cr:FileSet",
            "@id": TEXTS,
            "name": TEXTS,
            "description": "The kept texts.",
            "encodingFormat": MEDIA[".parquet"],
            "includes": "text/*.parquet",
        }
    ]


def _records(contents: Contents) -> list[dict[str, Any]]:
    """The documents, column by column."""
    if not _sets(contents):
        return []
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"documents/{column}",
            "name": column,
            "description": WORDS.get(column, column),
            "dataType": "sc:Text",
            "source": {"fileSet": {"@id": TEXTS}, "extract": {"column": column}},
        }
        for column in contents.text.columns
    ]
    return [
        {
            "@type": "cr:RecordSet",
            "@id": "documents",
            "name": "documents",
            "description": f"{contents.text.rows} documents.",
            "field": fields,
        }
    ]
