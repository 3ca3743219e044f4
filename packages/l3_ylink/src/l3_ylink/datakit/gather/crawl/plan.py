"""What a crawl may do: where, how fast, how much, and as whom."""

from __future__ import annotations

import ipaddress
from functools import cached_property
from typing import Annotated, Any, Self
from urllib.parse import SplitResult, urlsplit

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from l3_ylink._kit.documents import describe, first_field
from l3_ylink._kit.problems import BadInput

TYPES = (
    "text/",
    "application/xhtml+xml",
    "application/xml",
    "application/rss+xml",
    "application/atom+xml",
    "application/json",
    "application/pdf",
    "application/epub+zip",
    "application/msword",
    "application/vnd.openxmlformats-officedocument",
)
"""Content types that are taken, by how they begin; others are left after their headers."""

STATE = ".crawl"
"""The hidden folder with a crawl's state, beside its WARC files."""

PLAN, FRONTIER, LOG = "plan.json", "frontier.sqlite", "crawl.log"

Agent = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_-]{2,40}$")]


class Budget(BaseModel):
    """What one host may cost in one crawl; a host that reaches a bound is left, the others go on."""

    model_config = ConfigDict(extra="forbid")

    pages: int = Field(10_000, ge=1)
    bytes: int = Field(2_000_000_000, ge=1, description="of bodies as they came over the wire")
    seconds: float = Field(86_400, gt=0, description="from the host's first request on, over all starts")


class CrawlPlan(BaseModel):
    """A crawl.  Only what is named here is visited."""

    model_config = ConfigDict(extra="forbid")

    seeds: list[str] = Field(min_length=1, description="http or https addresses to begin with")
    domains: list[str] = Field(
        default_factory=list,
        description="domains that may be visited, with all below them; empty: the seeds' hosts, exactly",
    )
    agent: Agent = Field("ylink", description="product token that robots.txt rules are looked up by")
    contact: str = Field("", max_length=200, description="address of who answers for the crawl")
    delay: float = Field(1.0, ge=0, description="least seconds between two requests to a host")
    connections: int = Field(2, ge=1, le=8, description="to one host at once, where no delay holds")
    hosts_at_once: int = Field(16, ge=1, le=256)
    budget: Budget = Field(default_factory=Budget)
    longest: int = Field(20_000_000, ge=1_000, description="bytes of a page; a longer one is cut and marked")
    timeout: float = Field(60, gt=0, description="seconds for one page, from the request to its last byte")
    retries: int = Field(2, ge=0, le=10)
    depth: int = Field(100, ge=0, description="links away from a seed")
    types: list[str] = Field(default_factory=lambda: list(TYPES), min_length=1)
    private: bool = Field(default=False, description="visit private, loopback and link-local addresses too")
    verify: bool = Field(default=True, description="check the certificates of https sites")
    sitemaps: bool = Field(default=True, description="read the sitemaps that robots.txt names")
    warc_bytes: int = Field(1_000_000_000, ge=10_000, description="size at which the next WARC is begun")

    @model_validator(mode="after")
    def _sound(self) -> Self:
        for seed in self.seeds:
            parts = urlsplit(seed)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ValueError(f"{seed!r} is no http or https address")
            if parts.username or parts.password:
                raise ValueError("an address with a password in it is not visited")
            if self.domains and not in_domains(parts.hostname, self.domains):
                raise ValueError(f"{seed!r} lies outside of the domains")
            if not self.private and _plainly_private(parts.hostname):
                raise ValueError(
                    f"{seed!r} is at a private address, which is visited with private (--private) only"
                )
        return self

    @property
    def user_agent(self) -> str:
        """What servers are told."""
        from l3_ylink import __version__

        return f"{self.agent}/{__version__}" + (f" (+{self.contact})" if self.contact else "")

    @cached_property
    def _places(self) -> set[tuple[str, int | None]]:
        seeds = [urlsplit(seed) for seed in self.seeds]
        return {((seed.hostname or "").rstrip("."), _port(seed)) for seed in seeds}

    def allows(self, origin: str) -> bool:
        """Whether a host may be visited: below a domain; or a seed's host, at its port or a usual one."""
        parts = urlsplit(origin)
        host = (parts.hostname or "").rstrip(".")
        if self.domains:
            return in_domains(host, self.domains)
        return (host, _port(parts)) in self._places


def _port(parts: SplitResult) -> int | None:
    """The port, where it is not http's or https's."""
    return parts.port if parts.port not in (80, 443) else None


def in_domains(host: str, domains: list[str]) -> bool:
    """Whether a host is one of the domains or below one: `notexample.org` is not below `example.org`."""
    name = host.lower().rstrip(".")
    return any(
        name == (known := domain.lower().strip(".")) or name.endswith(f".{known}") for domain in domains
    )


def is_public(address: str) -> bool:
    """Whether an IP address is of the public internet; one of IPv4 inside IPv6 is judged itself."""
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo or (None, None))[1]
        if inner is not None:
            return is_public(str(inner))
        if found in ipaddress.ip_network("64:ff9b::/96"):
            return is_public(str(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF)))
    return found.is_global and not found.is_multicast


def _plainly_private(host: str) -> bool:
    try:
        return not is_public(host)
    except ValueError:
        return host.lower().rstrip(".") == "localhost" or host.lower().endswith(".localhost")


def parse_plan(values: dict[str, Any]) -> CrawlPlan:
    """A plan from plain values; a `BadInput` names the field at fault."""
    try:
        return CrawlPlan.model_validate(values)
    except ValidationError as error:
        raise BadInput(f"crawl: {describe(error)}", field=first_field(error) or "seeds") from error
