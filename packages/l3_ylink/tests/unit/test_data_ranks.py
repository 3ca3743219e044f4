"""Tokenisers given as ranks become a tokenizer.json with the same ids."""

import base64
import unicodedata
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.transform.encoder import PROBES, load_encoder
from l3_ylink.datakit.transform.ranks import PATTERNS, byte_letters, import_ranks, pairs_of, read_ranks

JOINED = [b"he", b"ll", b"hell", b"lo", b"hello", b" w", b"or", b" wor", b"ld", b"\xe4\xb8\xad"]
JOINED += [b"aa", b"aaa", b"aaaa"]
RANKS = {bytes([byte]): byte for byte in range(256)}
RANKS |= {token: 256 + rank for rank, token in enumerate(JOINED)}


def write(path: Path, ranks: dict[bytes, int]) -> Path:
    path.write_text("\n".join(f"{base64.b64encode(token).decode()} {rank}" for token, rank in ranks.items()))
    return path


@cache
def encoder(folder: Path, family: str):  # type: ignore[no-untyped-def]
    write(folder / "x.tiktoken", RANKS)
    import_ranks(folder / "x.tiktoken", folder / "tokenizer.json", family=family, special=["<|end|>"])
    return load_encoder(folder / "tokenizer.json")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


def by_definition(word: bytes) -> list[int]:
    """A token is itself; else neighbours are joined, lowest rank and leftmost first, until none are left."""
    if word in RANKS:
        return [RANKS[word]]
    parts = [word[place : place + 1] for place in range(len(word))]
    while True:
        ranked = [(RANKS.get(parts[i] + parts[i + 1], 9999), i) for i in range(len(parts) - 1)]
        if not ranked or min(ranked)[0] == 9999:
            return [RANKS[part] for part in parts]
        place = min(ranked)[1]
        parts[place : place + 2] = [parts[place] + parts[place + 1]]


@pytest.mark.parametrize("word", ["hello", " world", "hell", "aaaaaaa", "heello", "中", "lolo"])
def test_words_are_joined_by_rank(folder: Path, word: str) -> None:
    assert encoder(folder, "qwen").encode([word]).tokens.tolist() == by_definition(word.encode())


def test_special_tokens_come_after_the_ranks(folder: Path) -> None:
    assert encoder(folder, "qwen").token("<|end|>") == len(RANKS)


@settings(deadline=None, max_examples=60)
@given(st.text() | st.text("helo wrd中a1 "))
def test_the_ids_are_tiktokens(folder: Path, text: str) -> None:
    tiktoken = pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    theirs = tiktoken.Encoding("x", pat_str=PATTERNS["qwen"], mergeable_ranks=RANKS, special_tokens={})
    ours = encoder(folder, "qwen").encode([text])
    clean = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    assert ours.tokens.tolist() == theirs.encode_ordinary(unicodedata.normalize("NFC", clean))


def test_every_cut_is_a_pair() -> None:
    assert pairs_of(b"aaaa", RANKS) == [(b"a", b"aaa"), (b"aa", b"aa"), (b"aaa", b"a")]
    assert pairs_of(b"hell", RANKS) == [(b"he", b"ll")]


def test_byte_letters_are_gpt_2s() -> None:
    letters = byte_letters()
    assert (letters[0x20], letters[0x0A], letters[0x41], letters[0xAD]) == ("Ġ", "Ċ", "A", "Ń")
    assert len(set(letters)) == 256


@pytest.mark.parametrize(
    ("content", "part"),
    [("###", "not a list"), ("YQ== 0\nYg== 2", "ranks are not"), ("YQ== x", "not a list"), (None, "be read")],
)
def test_a_damaged_file_is_told(tmp_path: Path, content: str | None, part: str) -> None:
    path = tmp_path / "x.tiktoken"
    if content is not None:
        path.write_text(content)
    with pytest.raises(BadInput, match=part):
        read_ranks(path)


def test_an_unknown_family_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no family 'x'"):
        import_ranks(tmp_path / "a", tmp_path / "b", family="x", special=[])


def test_probes_are_the_same_by_both_engines(folder: Path) -> None:
    one = encoder(folder, "cl100k")
    other = load_encoder(folder / "tokenizer.json", "tokenizers")
    assert one.encode(PROBES).tokens.tolist() == other.encode(PROBES).tokens.tolist()
