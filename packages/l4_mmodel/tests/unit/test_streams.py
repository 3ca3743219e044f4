"""Bytes on their way through: however the network cuts them, the same events come out."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st
from l4_mmodel.serving.gateway.streams import EventStream
from l4_mmodel.serving.textstream import Detokeniser, StopFilter


def chunk(text: str, **more: object) -> bytes:
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}], **more}).encode() + b"\n\n"


USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}\n\n'
DONE = b"data: [DONE]\n\n"
CUTS = st.lists(st.integers(0, 400), max_size=12)


def through(data: bytes, cuts: list[int], *, keep: bool) -> tuple[bytes, EventStream]:
    events = EventStream(keep_usage=keep)
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    return b"".join(events.add(data[a:b]) for a, b in itertools.pairwise(edges)), events


@given(CUTS, st.lists(st.text(max_size=8), max_size=5), st.booleans())
def test_events_come_out_whole_and_usage_only_when_asked(
    cuts: list[int], texts: list[str], keep: bool
) -> None:
    body = b"".join(chunk(text) for text in texts)
    shown, events = through(body + USAGE + DONE, cuts, keep=keep)
    assert shown == body + (USAGE if keep else b"") + DONE
    assert events.done
    assert events.usage == {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@given(CUTS)
def test_line_ends_of_other_servers(cuts: list[int]) -> None:
    body = chunk("a") + USAGE + DONE
    shown, events = through(body.replace(b"\n", b"\r\n"), cuts, keep=False)
    assert shown == chunk("a") + DONE
    assert events.done


def test_text_that_speaks_of_usage_goes_through() -> None:
    body = chunk('"usage":{"completion_tokens": 1}') + DONE
    shown, events = through(body, [], keep=False)
    assert shown == body
    assert events.usage is None


def test_usage_beside_a_choice_is_counted_and_kept() -> None:
    body = chunk("a", usage={"completion_tokens": 1}) + DONE
    shown, events = through(body, [], keep=False)
    assert shown == body
    assert events.usage == {"completion_tokens": 1}


def test_a_stream_that_is_cut_is_not_done() -> None:
    _, events = through(chunk("a") + b"data: {", [], keep=False)
    assert not events.done


@given(st.text(), st.lists(st.text(min_size=1, max_size=4), max_size=3), CUTS)
def test_nothing_after_a_stop_string_and_nothing_of_it(text: str, stops: list[str], cuts: list[int]) -> None:
    stop = StopFilter(stops)
    edges = [0, *sorted(cut for cut in cuts if cut < len(text)), len(text)]
    shown = "".join(stop.add(text[a:b]) for a, b in itertools.pairwise(edges))
    if not stop.stopped:
        shown += stop.rest()
    found = [at for one in stops if (at := text.find(one)) >= 0]
    assert shown == (text[: min(found)] if found else text)


@given(st.text(alphabet="aé中😀 \n", max_size=40))
def test_bytes_as_tokens_become_whole_characters(text: str) -> None:
    shown = []
    turn = Detokeniser(lambda ids: bytes(ids).decode("utf-8", "replace"))
    for token in text.encode():
        piece = turn.add(token)
        assert "\ufffd" not in piece
        shown.append(piece)
    assert "".join(shown) + turn.rest() == text
