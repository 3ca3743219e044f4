"""`ylink data transform`: text to tokens, tokens to sequences, files to other forms and orders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from l3_ylink._kit.command_line import new_app, out, show, show_json
from l3_ylink._kit.problems import BadInput

app = new_app("Files to other forms and orders: tokens, packed sequences, mixes, conversations.")

JSON = typer.Option(False, "--json", help="print JSON")
TO = typer.Option(..., "--out", help="where the result goes")
TOKENS = typer.Argument(help="token files, named without .bin and .idx")
FILES = typer.Argument(help="files to read")
SEED = typer.Option(0, help="the same seed gives the same bytes")
REPEATED = typer.Option("join", help="two turns of one role in a row: join, reject, or last")


def _tell(found: dict[str, Any], text: str, *, as_json: bool) -> None:
    if as_json:
        show_json(found)
    else:
        out.print(text, soft_wrap=True, markup=False)


def _rejected(reasons: dict[str, int]) -> None:
    for reason, count in reasons.items():
        out.print(f"rejected {count}: {reason}", markup=False)


def _rejects(target: Path) -> Path:
    return target.with_name(f"{target.name}.rejects.jsonl")


def _repeated(value: str) -> Any:
    if value not in ("join", "reject", "last"):
        raise BadInput(f"{value!r} is unknown", field="--repeated", do="use join, reject or last")
    return value


@app.command("tokenise")
def tokenise(
    files: list[Path] = FILES,
    tokenizer: Path = typer.Option(..., help="a tokenizer.json"),
    out_prefix: Path = TO,
    end: str = typer.Option("<|endoftext|>", help="token that closes each document"),
    field: str = typer.Option("text", help="field or column that holds the text"),
    as_json: bool = JSON,
) -> None:
    """Writes texts (JSONL, Parquet, tars, plain files) as a Megatron token file."""
    from l3_ylink.datakit.transform.files import tokenise_files

    done = tokenise_files(files, tokenizer, out_prefix, end=end, field=field)
    text = f"{done.documents} documents, {done.tokens} tokens by {done.engine}: {out_prefix}.bin, .idx"
    _tell(done._asdict(), text, as_json=as_json)


@app.command("merge")
def merge(tokens: list[Path] = TOKENS, out_prefix: Path = TO, as_json: bool = JSON) -> None:
    """Joins token files into one, streaming, in the order given."""
    from l3_ylink.datakit.transform.merge import merge_tokens

    documents, count = merge_tokens(out_prefix, tokens)
    found = {"documents": documents, "tokens": count}
    _tell(found, f"{documents} documents, {count} tokens: {out_prefix}.bin, .idx", as_json=as_json)


@app.command("pack")
def pack(
    tokens: list[Path] = TOKENS,
    length: int = typer.Option(..., min=2, help="tokens of a sequence"),
    out_file: Path = TO,
    pad: int = typer.Option(0, min=0, help="id that fills a sequence up"),
    seed: int = SEED,
    as_json: bool = JSON,
) -> None:
    """Packs documents into sequences by best fit: ids, positions, boundaries and loss masks, in Parquet."""
    from l3_ylink.datakit.transform.packed import write_packed

    done = write_packed(out_file, tokens, length, pad=pad, seed=seed)
    text = f"{done.sequences} sequences, {100 * done.fill:.2f} % full, {done.cut} documents cut: {out_file}"
    _tell({**done._asdict(), "fill": done.fill}, text, as_json=as_json)


@app.command("shuffle")
def shuffle(
    files: list[Path] = typer.Argument(help="JSONL, Parquet, or token files named without .bin"),
    out_file: Path = TO,
    seed: int = SEED,
    memory: int = typer.Option(256, min=1, help="megabytes to sort in; the result is the same for any"),
    as_json: bool = JSON,
) -> None:
    """Puts the rows of files into a random order that depends on the seed alone."""
    from l3_ylink.datakit.transform.files import shuffle_files

    count = shuffle_files(files, out_file, seed, memory=memory * 1_000_000)
    _tell({"rows": count}, f"{count} rows: {out_file}", as_json=as_json)


@app.command("mix")
def mix(
    recipe: Path = typer.Argument(help="YAML: sources (name, tokens, weight, max_epochs), total …"),
    out_prefix: Path | None = typer.Option(None, "--out", help="token file to write; without it, the plan"),
    as_json: bool = JSON,
) -> None:
    """Mixes token files by weights, temperature and limits, or says what a mix would take."""
    from l3_ylink.datakit.transform.megatron import TokenFile
    from l3_ylink.datakit.transform.mix import load_mix, mix_tokens, plan_mix

    wanted = load_mix(recipe)
    if out_prefix is None:
        sizes = {source.name: len(TokenFile(source.tokens).tokens) for source in wanted.sources}
        parts = plan_mix(wanted, sizes)
    else:
        parts = mix_tokens(out_prefix, wanted)
    rows = [
        {**part._asdict(), "wanted": round(part.wanted, 6), "epochs": round(part.epochs, 4)} for part in parts
    ]
    show(rows, ("name", "size", "wanted", "tokens", "epochs", "limit"), as_json=as_json)


@app.command("convert")
def convert(
    files: list[Path] = FILES,
    to: str = typer.Option(..., help="parquet, jsonl, webdataset or arrow"),
    out_folder: Path = TO,
    field: str = typer.Option("text", help="field or column that holds the text"),
    as_json: bool = JSON,
) -> None:
    """Writes texts as shards in another form."""
    from l3_ylink.datakit.transform.files import convert_texts

    count = convert_texts(files, out_folder, to, field=field)
    _tell({"texts": count}, f"{count} texts: {out_folder}", as_json=as_json)


@app.command("chat")
def chat(
    rows: Path = typer.Argument(help="JSONL of conversations or preferences in any form"),
    to: str = typer.Option(..., help="openai, sharegpt, alpaca, dpo, openai-pairs or kto"),
    out_file: Path = TO,
    longest: int = typer.Option(0, min=0, help="characters of a sample at most; 0 for any"),
    repeated: str = REPEATED,
    as_json: bool = JSON,
) -> None:
    """Checks samples for fine-tuning and writes them in one form; rejects go beside, with reasons."""
    from l3_ylink.datakit.transform.chat.convert import convert_samples

    done = convert_samples(
        rows, out_file, to, rejects=_rejects(out_file), longest=longest, repeated=_repeated(repeated)
    )
    text = f"{done.written} rows of {done.read}, {done.merged} with joined turns: {out_file}"
    _tell(done._asdict(), text, as_json=as_json)
    if not as_json:
        _rejected(done.rejected)


@app.command("render")
def render(
    rows: Path = typer.Argument(help="JSONL of conversations in any form"),
    model: Path = typer.Option(..., help="folder with tokenizer.json and a chat template"),
    out_prefix: Path = TO,
    longest: int | None = typer.Option(None, min=1, help="tokens of a conversation at most"),
    repeated: str = REPEATED,
    as_json: bool = JSON,
) -> None:
    """Renders conversations by a model's chat template into tokens with a checked loss mask."""
    from l3_ylink.datakit.transform.chat.learn import ChatEncoder, render_samples

    encoder = ChatEncoder(model)
    done = render_samples(
        rows,
        out_prefix,
        encoder,
        rejects=_rejects(out_prefix),
        longest=longest,
        repeated=_repeated(repeated),
    )
    text = f"{done.written} of {done.read} conversations, {done.learnt} of {done.tokens} tokens are learnt"
    _tell(done._asdict(), f"{text}: {out_prefix}.bin, .idx, .mask", as_json=as_json)
    if not as_json:
        _rejected(done.rejected)


@app.command("ranks")
def ranks(
    source: Path = typer.Argument(help="byte-pair ranks, as tiktoken reads them"),
    out_file: Path = TO,
    family: str = typer.Option("cl100k", help="how texts are split: cl100k or qwen"),
    special: list[str] = typer.Option(
        ["<|endoftext|>"], help="special token after the ranks; may be repeated"
    ),
    as_json: bool = JSON,
) -> None:
    """Turns a tokenizer given as ranks into a tokenizer.json with the same ids."""
    from l3_ylink.datakit.transform.ranks import import_ranks

    size = import_ranks(source, out_file, family=family, special=special)
    _tell({"vocabulary": size}, f"{size} tokens: {out_file}", as_json=as_json)
