"""The steps that judge addresses: block lists and domain rules, and pages gathered more than once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import xxhash
from pydantic import Field, PrivateAttr

from l3_ylink._kit.documents import digest_of_file
from l3_ylink.datakit.documents.batch import Batch
from l3_ylink.datakit.purify.urls import DomainSet, canonical, host_of, read_domains, words_of

from .base import Check, GlobalStep, Ruling, Step, Table, Verdicts

if TYPE_CHECKING:
    from l3_ylink.datakit.documents.spill import Spill


class Urls(Step):
    """Drops pages by their address: domains of block lists (with all below them) and words.

    An allowed domain goes before every other rule.  Documents without an address stay.
    """

    step: Literal["urls"] = "urls"
    lists: list[Path] = Field(
        default_factory=list, description="files of domains, one a line or hosts format, below the input"
    )
    domains: list[str] = Field(default_factory=list, description="more domains to drop")
    words: list[str] = Field(default_factory=list, description="words that no address may have")
    allow: list[str] = Field(default_factory=list, description="domains that stay whatever the lists say")
    only: list[str] = Field(default_factory=list, description="if given: no other domains stay")

    _blocked: DomainSet | None = PrivateAttr(default=None)
    _allowed: DomainSet | None = PrivateAttr(default=None)
    _only: DomainSet | None = PrivateAttr(default=None)
    _digests: list[str] = PrivateAttr(default_factory=list)

    def prepare(self, folder: Path) -> None:
        if self._blocked is not None:
            return
        blocked = [domain.lower() for domain in self.domains]
        for path in self.lists:
            blocked += read_domains(folder / path)
            self._digests.append(digest_of_file(folder / path))
        self._blocked = DomainSet(blocked)
        self._allowed = DomainSet(domain.lower() for domain in self.allow)
        self._only = DomainSet(domain.lower() for domain in self.only)

    def measure(self, batch: Batch) -> None:
        batch.columns["url_rule"] = [self.rule_of(document.url) for document in batch.documents]

    def rule_of(self, url: str) -> str:
        """The rule that an address breaks: `domain:…`, `word:…`, `only`; "" for none."""
        assert self._blocked is not None
        assert self._allowed is not None
        assert self._only is not None
        host = host_of(url)
        if not host or self._allowed.match(host):
            return ""
        if domain := self._blocked.match(host):
            return f"domain:{domain}"
        if self.only and not self._only.match(host):
            return "only"
        found = sorted(words_of(url) & {word.lower() for word in self.words}) if self.words else []
        return f"word:{found[0]}" if found else ""

    def decide(self, table: Table, verdicts: Verdicts) -> None:
        kinds = np.asarray([rule.partition(":")[0] for rule in table.columns["url_rule"]], object)
        for kind in ("domain", "word", "only"):
            verdicts.drop(np.flatnonzero(verdicts.alive & (kinds == kind)), f"url_{kind}")

    def checks(self, row: Mapping[str, Any]) -> list[Check]:
        rule = row["url_rule"]
        reason = f"url_{rule.partition(':')[0]}" if rule else "url_domain"
        return [Check("urls", reason, "url_rule", rule, "is", "", not rule)]

    def signal_settings(self) -> dict[str, Any]:
        return {**super().signal_settings(), "digests": list(self._digests)}


class UrlDuplicates(GlobalStep):
    """Pages gathered more than once, by their address: the newest (else the first) one stays."""

    RECORD: ClassVar[np.dtype[Any]] = np.dtype(
        [("key", np.uint64), ("rest", np.uint64), ("age", np.uint64), ("row", np.int64)]
    )

    step: Literal["url_duplicates"] = "url_duplicates"
    keep: Literal["newest", "first"] = "newest"

    def measure(self, batch: Batch) -> None:
        spelt = [canonical(document.url) for document in batch.documents]
        batch.columns["url_hash"] = [
            xxhash.xxh3_128_digest(url.encode("utf-8", "surrogatepass")) if url else b"" for url in spelt
        ]

    def collect(self, table: Table, alive: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        hashes, dates = table.columns["url_hash"], table.columns["date"]
        rows = np.asarray([row for row in alive.tolist() if hashes[row]], np.int64)
        pairs = np.frombuffer(b"".join(hashes[row] for row in rows.tolist()), ">u8").reshape(-1, 2)
        records = np.zeros(len(rows), self.RECORD)
        records["key"], records["rest"], records["row"] = pairs[:, 0], pairs[:, 1], rows + table.first
        if self.keep == "newest":
            records["age"] = [_age(dates[row]) for row in rows.tolist()]
        return records

    def resolve(self, spill: Spill, ruling: Ruling) -> None:
        for part in spill.parts("key", "rest", "age", "row"):
            new = np.ones(len(part), bool)
            new[1:] = (part["key"][1:] != part["key"][:-1]) | (part["rest"][1:] != part["rest"][:-1])
            best = part["row"][np.flatnonzero(new)[np.cumsum(new) - 1]]
            again = ~new
            ruling.drop(part["row"][again], "same_url", value=1.0, threshold=1.0, other=best[again])


def _age(date: str) -> int:
    """A number that is smaller for later ISO dates; the largest for none."""
    digits = "".join(letter for letter in date if letter.isdigit())[:14].ljust(14, "0")
    return 10**14 - int(digits) if date else 10**14
