"""What a measured value means: against the profile's bounds, else against the other hosts."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from l1_podsys.core.planning import Profile
from l1_podsys.core.planning.profile import Floor
from l1_podsys.documents import CheckResult


class Check(NamedTuple):
    """A measured check: its unit, whether more is better, and how far from the median is odd."""

    unit: str
    warn_ratio: float
    fail_ratio: float
    more_is_better: bool = True
    least: float = 0.0
    """Below this (for "less is better") a value is fine, whatever the others have."""


CHECKS: dict[str, Check] = {
    "cpu": Check("MB/s", 0.8, 0.5),
    "memory": Check("GB/s", 0.7, 0.4),
    "disk-write": Check("MB/s", 0.4, 0.1),
    "disk-fsync": Check("ms", 0.3, 0.05, more_is_better=False, least=20.0),
    "network-bandwidth": Check("Gbit/s", 0.5, 0.2),
    "network-latency": Check("us", 0.3, 0.1, more_is_better=False, least=500.0),
}
CLOCK_LIMIT_S = 0.05


class Value(NamedTuple):
    """One measured value; `problem` instead of it when it could not be measured."""

    node: str
    peer: str | None
    value: float | None
    problem: str = ""
    evidence: Sequence[str] = ()


def figure(value: float) -> str:
    """A measured value with three digits that count, never in powers of ten."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def judge(name: str, values: Sequence[Value], expect: Mapping[str, Floor]) -> list[CheckResult]:
    """One result for each value of one check.

    What could not be measured is `unknown` or, for the network, `fail`: never a silent pass.
    """
    check = CHECKS[name]
    bounds = expect.get(name)
    measured = [value.value for value in values if value.value is not None]
    median = statistics.median(measured) if measured else 0.0
    results = []
    for value in values:
        verdict, expected = _verdict(check, value, bounds, median, len(measured))
        if value.value is None:
            verdict = "fail" if name.startswith("network") else "unknown"
        results.append(
            CheckResult(
                name=name,
                node=value.node,
                peer=value.peer,
                value=None if value.value is None else round(value.value, 4),
                unit=check.unit,
                expected=expected,
                verdict=verdict,
                evidence=[*value.evidence, *([value.problem] if value.problem else [])],
            )
        )
    return results


def _verdict(check: Check, value: Value, bounds: Floor | None, median: float, count: int) -> tuple[str, str]:
    have = value.value or 0.0
    if bounds is not None:
        words = []
        if bounds.at_least is not None:
            words.append(f">= {bounds.at_least:g}")
        if bounds.at_most is not None:
            words.append(f"<= {bounds.at_most:g}")
        low = bounds.at_least is not None and have < bounds.at_least
        high = bounds.at_most is not None and have > bounds.at_most
        return ("fail" if low or high else "pass"), " and ".join(words)
    if count < 3:
        return "pass", "no bound: fewer than 3 hosts to compare with"
    sign, ratio = (">=", check.warn_ratio) if check.more_is_better else ("<=", 1 / check.warn_ratio)
    limit = median * ratio if check.more_is_better else max(median * ratio, check.least)
    expected = f"{sign} {figure(limit)} (median {figure(median)})"
    goodness = have / median if check.more_is_better else (median / have if have else 1.0)
    if not check.more_is_better and have <= check.least:
        return "pass", expected
    if goodness < check.fail_ratio:
        return "fail", expected
    return ("warn" if goodness < check.warn_ratio else "pass"), expected


def clock_result(node: str, offset_s: float, error_s: float) -> CheckResult:
    """The host's clock against the controller's; `error_s` is half of the best round trip."""
    off = abs(offset_s) - error_s
    verdict = "pass" if off <= CLOCK_LIMIT_S else "warn" if off <= 1.0 else "fail"
    return CheckResult(
        name="clock-offset",
        node=node,
        value=round(offset_s * 1e3, 3),
        unit="ms",
        expected=f"within {CLOCK_LIMIT_S * 1e3:g} ms of the controller",
        verdict=verdict,
        evidence=[f"uncertainty {error_s * 1e3:.3g} ms"],
    )


def version_results(node: str, versions: Mapping[str, str], profile: Profile | None) -> list[CheckResult]:
    """Versions that the profile pins, against what runs."""
    wanted = profile.versions if profile else {}
    return [
        CheckResult(
            name="version",
            node=node,
            value=versions.get(component, "absent"),
            expected=f"{component} {version}",
            verdict="pass" if versions.get(component) == version else "fail",
            evidence=[f"{component}: {versions.get(component, 'absent')}"],
        )
        for component, version in wanted.items()
    ]
