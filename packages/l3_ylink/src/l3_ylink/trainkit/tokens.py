"""Token shards in Megatron's .bin/.idx form, as one long row of tokens cut into samples.

Which sample comes when is a pure function of (seed, position): a run that resumes at a step reads
what an undisturbed run would have read, and a world of another size reads the same in all.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from l3_ylink._kit.documents import Reference, digest_of_file
from l3_ylink._kit.problems import BadInput
from l3_ylink.documents import DatasetManifest, ModelShape, Shard

MAGIC = b"MMIDIDX\x00\x00"
VERSION = 1
DTYPES = {1: np.uint8, 2: np.int8, 3: np.int16, 4: np.int32, 5: np.int64, 8: np.uint16}
HEADER = struct.Struct("<9sQBQQ")

Tokens = npt.NDArray[Any]


@dataclass(frozen=True)
class TokenFile:
    """One memory-mapped `.bin`."""

    name: str
    tokens: Tokens


class TokenDataset:
    """Samples of `sequence` + 1 tokens over all shards in the manifest's order.

    Neighbours share one token: the target of one's last position is the other's first input.
    """

    def __init__(self, files: list[TokenFile], sequence: int, seed: int) -> None:
        self.files, self.sequence, self.seed = files, sequence, seed
        self.ends = np.cumsum([len(file.tokens) for file in files])
        self.samples = (int(self.ends[-1]) - 1) // sequence if files else 0
        if self.samples < 1:
            total = int(self.ends[-1]) if files else 0
            raise BadInput(
                f"the data set has {total} tokens, one sample needs {sequence + 1}",
                field="data",
                do="give more data or plan a shorter sequence",
            )

    def batch(self, first: int, count: int) -> npt.NDArray[np.int64]:
        """Samples first … first + count - 1 of the endless shuffled order: [count, sequence + 1]."""
        rows = [self._sample(self._index(position)) for position in range(first, first + count)]
        return np.stack(rows)

    def _index(self, position: int) -> int:
        epoch, place = divmod(position, self.samples)
        return int(shuffled(self.samples, self.seed, epoch)[place])

    def _sample(self, index: int) -> npt.NDArray[np.int64]:
        start, left = index * self.sequence, self.sequence + 1
        pieces = []
        while left:
            number = int(np.searchsorted(self.ends, start, side="right"))
            tokens = self.files[number].tokens
            offset = start - (int(self.ends[number]) - len(tokens))
            piece = tokens[offset : offset + left]
            pieces.append(piece)
            start, left = start + len(piece), left - len(piece)
        return np.concatenate(pieces).astype(np.int64)


@lru_cache(maxsize=2)
def shuffled(samples: int, seed: int, epoch: int) -> npt.NDArray[np.int64]:
    """The order of an epoch: a permutation fixed by (seed, epoch)."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, epoch]))).permutation(samples)


def position_of(
    step: int, accumulated: int, rank: int, *, global_batch: int, micro_batch: int, data_parallel: int
) -> int:
    """Where in the endless order a rank's micro-batch of a step begins (steps count from 0)."""
    return step * global_batch + (accumulated * data_parallel + rank) * micro_batch


def read_manifest(path: Path) -> DatasetManifest:
    """The manifest of a tokenised data set, by its file or its folder."""
    manifest = DatasetManifest.read(path / "dataset-manifest.json" if path.is_dir() else path)
    if manifest.kind != "tokens":
        raise BadInput(
            f"is a data set of {manifest.kind}, pretraining reads tokens",
            field="kind",
            do="end the recipe with a tokenise step",
        )
    return manifest


def open_dataset(
    path: Path, manifest: DatasetManifest, *, sequence: int, seed: int, vocabulary: int, verify: bool
) -> TokenDataset:
    """Opens a manifest's shards; with `verify` every digest and every token id is checked first."""
    folder = path if path.is_dir() else path.parent
    listed = {shard.uri: shard for shard in manifest.shards}
    if verify:
        for shard in manifest.shards:
            verify_shard(folder, shard)
    files = []
    for uri in listed:
        if not uri.endswith(".bin"):
            continue
        index = uri.removesuffix(".bin") + ".idx"
        if index not in listed:
            raise BadInput(
                f"has no {index} beside it", field=uri, do="list both files of the pair in the manifest"
            )
        files.append(open_pair(folder, uri, index))
    dataset = TokenDataset(files, sequence, seed)
    if verify:
        _check_vocabulary(dataset, vocabulary)
    return dataset


def verify_shard(folder: Path, shard: Shard) -> None:
    """Raises a `BadInput` that names the file when it is missing or not what the manifest says."""
    path = folder / shard.uri
    if not path.is_file():
        raise BadInput("is missing", field=shard.uri, do="copy the whole folder of the data set")
    if path.stat().st_size != shard.bytes:
        raise BadInput(f"has {path.stat().st_size} bytes, the manifest says {shard.bytes}", field=shard.uri)
    if digest_of_file(path) != shard.sha256:
        raise BadInput(
            "has another SHA-256 than the manifest says",
            field=shard.uri,
            why="the file was changed or damaged after it was written",
            do="make the data set again, or copy it again from its source",
        )


def open_pair(folder: Path, uri: str, index: str) -> TokenFile:
    """Maps a `.bin` with the type that its `.idx` names; sizes must agree."""
    raw = (folder / index).read_bytes()
    if len(raw) < HEADER.size:
        raise BadInput("is too short for an index", field=index)
    magic, version, code, sequences, _documents = HEADER.unpack_from(raw)
    if magic != MAGIC or version != VERSION or code not in DTYPES:
        raise BadInput("is not a Megatron index of version 1 with whole-number tokens", field=index)
    dtype = np.dtype(DTYPES[code])
    lengths = np.frombuffer(raw, dtype=np.int32, count=sequences, offset=HEADER.size)
    expected, size = int(lengths.sum()) * dtype.itemsize, (folder / uri).stat().st_size
    if size != expected:
        raise BadInput(f"has {size} bytes, its index counts {expected}", field=uri)
    tokens: Tokens = np.memmap(folder / uri, dtype=dtype, mode="r") if size else np.empty(0, dtype)
    return TokenFile(uri, tokens)


def _check_vocabulary(dataset: TokenDataset, vocabulary: int) -> None:
    for file in dataset.files:
        if len(file.tokens) and int(file.tokens.max()) >= vocabulary:
            raise BadInput(
                f"holds token {int(file.tokens.max())}, the model's vocabulary is {vocabulary}",
                field=file.name,
                do="plan with the vocabulary of this data set's tokenizer (--data does that)",
            )


def tokenizer_file(path: Path, manifest: DatasetManifest) -> Path | None:
    """The data set's `tokenizer.json`, its digest checked; None where it has none."""
    file = (path if path.is_dir() else path.parent) / "tokenizer.json"
    if not file.is_file():
        return None
    if manifest.tokenizer_digest and digest_of_file(file) != manifest.tokenizer_digest:
        raise BadInput("is not the tokenizer that the manifest names", field=file.name)
    return file


def vocabulary_of(tokenizer: Path) -> int:
    """The number of ids that a tokenizer can give, rounded up to a multiple of 64 for the matrix units."""
    value = json.loads(tokenizer.read_bytes())
    vocabulary = value["model"]["vocab"]  # piece -> id, or (Unigram) a list of [piece, score]
    ids = [*(vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary)))]
    ids += [row["id"] for row in value.get("added_tokens", [])]
    return (int(max(ids)) + 64) // 64 * 64


def fitted_to_data(shape: ModelShape, data: Path | None) -> tuple[ModelShape, list[Reference], int | None]:
    """The shape with the vocabulary of a data set's tokenizer, the data set as an input, its token count."""
    if data is None:
        return shape, [], None
    manifest = read_manifest(data)
    tokenizer = tokenizer_file(data, manifest)
    if tokenizer is not None:
        shape = shape.model_copy(update={"vocabulary": vocabulary_of(tokenizer)})
    return shape, [manifest.reference()], manifest.tokens
