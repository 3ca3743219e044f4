"""Reading rows and records: packed, cut, damaged, in odd encodings, in parts; bad ones named by place."""

from __future__ import annotations

import csv
import gzip
import importlib.util
import io
import json
import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from l3_ylink._kit.problems import BadInput
from l3_ylink.datakit.documents.batch import Document
from l3_ylink.datakit.fileqa.extract import How
from l3_ylink.datakit.gather.listing import Block, list_blocks
from l3_ylink.datakit.gather.readers import read_piece
from l3_ylink.datakit.recipe import Source

HERE = [HealthCheck.function_scoped_fixture]
POEM = "白日依山尽，黄河入海流。欲穷千里目，更上一层楼。"
SOURCE = Source(name="s", licence="CC0-1.0")


def read(folder: Path, source: Source = SOURCE, block_bytes: int = 10**9) -> list[Document]:
    return list(documents(list_blocks(folder, [source], block_bytes).blocks, folder, source))


def documents(blocks: list[Block], folder: Path, source: Source) -> Iterator[Document]:
    for block in blocks:
        for piece in block.pieces:
            yield from read_piece(folder, piece, source, how=How("visible"), longest=10**6)


def packed(kind: str, data: bytes) -> bytes:
    half = len(data) // 2
    if kind == ".gz":
        return gzip.compress(data[:half]) + gzip.compress(data[half:])
    if kind == ".zst":
        return zstandard.compress(data[:half]) + zstandard.compress(data[half:])
    return data


@pytest.mark.parametrize("kind", ["", ".gz", ".zst"])
def test_rows_come_in_order_with_address_and_date_and_bad_ones_are_named_by_place(
    tmp_path: Path, kind: str
) -> None:
    rows = [
        b'{"text": "one", "url": "http://a.example/1", "timestamp": "2024-05-06T07:08:09Z", "title": "T"}',
        b"{broken",
        b"[1]",
        f'{{"id": "x", "text": "{POEM}"}}'.encode("gb18030"),
        b'{"text": 3}',
        b'{"text": " "}',
        b'{"text": "last"}',
    ]
    (tmp_path / f"rows.jsonl{kind}").write_bytes(packed(kind, b"\n".join(rows)))
    found = read(tmp_path)
    name = f"rows.jsonl{kind}"
    starts = [sum(len(row) + 1 for row in rows[:number]) for number in range(7)]
    assert [(item.id, item.text, item.error) for item in found] == [
        (f"{name}#0", "one", None),
        (f"{name}#{starts[1]}", "", "not a JSON object"),
        (f"{name}#{starts[2]}", "", "not a JSON object"),
        (f"{name}#x", POEM, None),
        (f"{name}#{starts[4]}", "", "no text in field 'text'"),
        (f"{name}#{starts[5]}", "", "empty"),
        (f"{name}#{starts[6]}", "last", None),
    ]
    assert (found[0].url, found[0].date, found[0].title) == (
        "http://a.example/1",
        "2024-05-06T07:08:09Z",
        "T",
    )


@pytest.mark.parametrize("kind", [".gz", ".zst"])
def test_a_packed_file_that_is_cut_off_gives_what_comes_before_and_where(tmp_path: Path, kind: str) -> None:
    rng = random.Random(1)
    rows = [json.dumps({"text": f"{rng.getrandbits(200_000):x}"}).encode() + b"\n" for _ in range(20)]
    data = b"".join(rows)
    whole = gzip.compress(data) if kind == ".gz" else zstandard.compress(data)
    (tmp_path / f"r.jsonl{kind}").write_bytes(whole[: len(whole) * 3 // 4])
    *good, bad = read(tmp_path)
    assert 8 <= len(good) <= 15
    assert all(item.error is None for item in good)
    assert bad.error in ("broken", "not a JSON object")
    assert bad.id == f"r.jsonl{kind}#{sum(len(row) for row in rows[: len(good)])}"


def test_a_large_packed_file_takes_no_more_memory_than_a_row(tmp_path: Path) -> None:
    row = json.dumps({"text": "x" * 50_000}).encode() + b"\n"
    with gzip.open(tmp_path / "big.jsonl.gz", "wb", 1) as stream:
        for _ in range(2_000):
            stream.write(row)
    block = list_blocks(tmp_path, [SOURCE], 10**9).blocks
    tracemalloc.start()
    assert sum(1 for _ in documents(block, tmp_path, SOURCE)) == 2_000
    assert tracemalloc.get_traced_memory()[1] < 4_000_000
    tracemalloc.stop()


cells = st.text(
    st.characters(codec="utf-8", exclude_characters="\0\r", exclude_categories=["Cs"]), max_size=20
)


@settings(max_examples=60, deadline=None, suppress_health_check=HERE)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=20), st.sampled_from(["", ".gz", ".zst"]))
def test_what_csv_wrote_comes_back(tmp_path: Path, rows: list[tuple[str, str]], kind: str) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([("text", "other"), *rows])
    for file in tmp_path.iterdir():
        file.unlink()
    (tmp_path / f"t.csv{kind}").write_bytes(packed(kind, text.getvalue().encode()))
    found = read(tmp_path)
    assert [item.text for item in found] == [text if text.strip() else "" for text, _ in rows]
    assert [item.error for item in found] == [None if text.strip() else "empty" for text, _ in rows]


def test_csv_in_other_encodings_and_separators_and_its_bad_rows(tmp_path: Path) -> None:
    poem = POEM
    (tmp_path / "a.csv").write_bytes(
        f'text;n\r\n"{poem}\n{poem}";1\r\nonly one\r\n{poem};2\r\n'.encode("gb18030")
    )
    (tmp_path / "b.tsv").write_bytes(f'id\ttext\nr1\t{poem}, with "marks"\n'.encode("utf-8-sig"))
    (tmp_path / "c.csv").write_bytes(b'text,n\ngood,1\n"never closed,2\nlost,3\n')
    found = {item.id: (item.text, item.error) for item in read(tmp_path)}
    assert found == {
        "a.csv#3": (f"{poem}\n{poem}", None),
        "a.csv#4": ("", "1 fields where the header has 2"),
        "a.csv#5": (poem, None),
        "b.tsv#r1": (f'{poem}, with "marks"', None),
        "c.csv#2": ("good", None),
        "c.csv#4": ("", "not CSV: unexpected end of data"),
    }


# -- WARC

needs_warc = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("warcio", "fastwarc")),
    reason="needs warcio and fastwarc: pip install 'l3-ylink[gather]'",
)


def warc(records: list[tuple[str, str, bytes, dict[str, str]]]) -> tuple[bytes, list[int]]:
    """A file of records (type, content type, body, more headers) and where each begins."""
    from warcio.statusandheaders import StatusAndHeaders
    from warcio.warcwriter import WARCWriter

    stream = io.BytesIO()
    writer = WARCWriter(stream, gzip=True)
    starts = []
    for number, (kind, content_type, body, more) in enumerate(records):
        starts.append(stream.tell())
        status = more.get("status", "200 OK")
        coding = [("Content-Encoding", more["coding"])] if "coding" in more else []
        http = StatusAndHeaders(status, [("Content-Type", content_type), *coding], protocol="HTTP/1.1")
        headers = {name: value for name, value in more.items() if name.startswith("WARC-")}
        record = writer.create_warc_record(
            more.get("url", f"http://site.example/{number}"), kind, io.BytesIO(body), len(body),
            warc_headers_dict={"WARC-Date": "2024-01-02T03:04:05Z", **headers},
            http_headers=http if kind in ("response", "revisit") else None,
            warc_content_type="" if kind == "response" else content_type,
        )  # fmt: skip
        writer.write_record(record)
    return stream.getvalue(), starts


def page(text: str) -> bytes:
    return f"<html><head><title>t</title></head><body><p>{text}</p></body></html>".encode()


@needs_warc
def test_warc_records_that_are_documents_are_read_and_no_others(tmp_path: Path) -> None:
    data, starts = warc(
        [
            ("response", "text/html", page("plain words"), {}),
            ("response", "text/html; charset=gbk", page("中文网页").decode().encode("gbk"), {}),
            ("response", "text/html", gzip.compress(page("packed words")), {"coding": "gzip"}),
            ("response", "text/html", page("an error page"), {"status": "404 Not Found"}),
            ("response", "image/png", b"\x89PNG", {}),
            ("response", "text/plain", b"User-agent: *", {"url": "http://site.example/robots.txt"}),
            ("conversion", "text/plain", "的 text of a WET file".encode(), {}),
            ("resource", "text/plain", b"a resource", {}),
            ("request", "application/http", b"GET / HTTP/1.1\r\n\r\n", {}),
            ("response", "text/html", page("cut"), {"WARC-Truncated": "length"}),
            ("response", "text/html", gzip.compress(b" " * 70_000_000), {"coding": "gzip"}),
        ]
    )
    (tmp_path / "a.warc.gz").write_bytes(data)
    found = read(tmp_path)
    assert [(item.id, item.text, item.error) for item in found] == [
        (f"a.warc.gz#{starts[0]}", "plain words", None),
        (f"a.warc.gz#{starts[1]}", "中文网页", None),
        (f"a.warc.gz#{starts[2]}", "packed words", None),
        (f"a.warc.gz#{starts[6]}", "的 text of a WET file", None),
        (f"a.warc.gz#{starts[7]}", "a resource", None),
        (f"a.warc.gz#{starts[9]}", "", "truncated"),
        (f"a.warc.gz#{starts[10]}", "", "bomb"),
    ]
    assert {item.date for item in found} == {"2024-01-02T03:04:05Z"}
    assert found[0].url == "http://site.example/0"
    (tmp_path / "a.warc.gz").unlink()
    (tmp_path / "a.warc").write_bytes(gzip.decompress(data))
    assert [item.text for item in read(tmp_path)] == [item.text for item in found]


@needs_warc
@settings(max_examples=40, deadline=None, suppress_health_check=HERE)
@given(st.integers(0, 2**30), st.integers(50, 5_000))
def test_a_warc_in_parts_of_any_size_gives_each_record_once(tmp_path: Path, seed: int, part: int) -> None:
    rng = random.Random(seed)
    inner = warc([("response", "text/html", page("inside"), {})])[0]
    bodies = [page(f"{rng.getrandbits(rng.choice([8, 4_000, 40_000])):x}") for _ in range(12)]
    bodies[3] = page("x") + inner + b"\x1f\x8b\x08" * 9  # what looks like a record begins inside of one
    data, _ = warc([("response", "text/html", body, {}) for body in bodies])
    (tmp_path / "a.warc.gz").write_bytes(data)
    assert [item.id for item in read(tmp_path, block_bytes=part)] == [item.id for item in read(tmp_path)]
    assert len(read(tmp_path)) == 12


@needs_warc
@settings(max_examples=60, deadline=None, suppress_health_check=HERE)
@given(st.data())
def test_a_damaged_warc_loses_the_damaged_record_and_says_so(tmp_path: Path, data: st.DataObject) -> None:
    rng = random.Random(data.draw(st.integers(0, 99)))
    texts = [f"{rng.getrandbits(4_000):x}" for _ in range(8)]
    whole, starts = warc([("response", "text/html", page(text), {}) for text in texts])
    hurt = data.draw(st.integers(0, 7))
    end = [*starts, len(whole)][hurt + 1]
    if data.draw(st.booleans()):
        kept = starts[hurt] + 1 + int(data.draw(st.floats(0, 1)) * (end - starts[hurt] - 2))
        content, sound = whole[:kept], texts[:hurt]
    else:
        middle = (starts[hurt] + end) // 2
        content = (
            whole[:middle] + bytes(byte ^ 0x5A for byte in whole[middle : middle + 40]) + whole[middle + 40 :]
        )
        sound = texts[:hurt] + texts[hurt + 1 :]
    (tmp_path / "a.warc.gz").write_bytes(content)
    found = read(tmp_path)
    assert [item.text for item in found if item.error is None] == sound
    assert [(item.id, item.error) for item in found if item.error] == [
        (f"a.warc.gz#{starts[hurt]}", "broken")
    ]


# -- elsewhere


def test_a_source_elsewhere_is_read_by_fsspec_as_a_folder_is(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec", reason="needs fsspec: pip install 'l3-ylink[remote]'")
    system = fsspec.filesystem("memory")
    rows = b"".join(json.dumps({"text": f"row {number}"}).encode() + b"\n" for number in range(50))
    try:
        with system.open("/lake/a/rows.jsonl", "wb") as stream:
            stream.write(rows)
        with system.open("/lake/a/rows2.jsonl.gz", "wb") as stream:
            stream.write(gzip.compress(rows))
        with system.open("/lake/b/page.html", "wb") as stream:
            stream.write(page("a page"))
        with system.open("/lake/.hidden/x.txt", "wb") as stream:
            stream.write(b"not seen")
        source = Source(name="lake", licence="CC0-1.0", at="memory://lake")
        found = read(tmp_path, source, block_bytes=200)
        assert len(found) == 101
        assert found[0].id == "memory://lake/a/rows.jsonl#0"
        assert found[-1].text == "a page"
        only = Source(name="lake", licence="CC0-1.0", at="memory://lake", include=["b/*"])
        assert [item.text for item in read(tmp_path, only)] == ["a page"]
        before = list_blocks(tmp_path, [only], 10**9).blocks[0].pieces[0]
        with system.open("/lake/b/page.html", "wb") as stream:
            stream.write(page("b page"))
        after = list_blocks(tmp_path, [only], 10**9).blocks[0].pieces[0]
        assert before.mtime_ns != after.mtime_ns
    finally:
        system.rm("/lake", recursive=True)
    with pytest.raises(BadInput, match="password"):
        list_blocks(tmp_path, [Source(name="x", licence="x", at="s3://key:secret@bucket/x")], 10**9)
