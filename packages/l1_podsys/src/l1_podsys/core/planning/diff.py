"""The difference of one host: a pure function of (desired, facts)."""

from __future__ import annotations

from l1_podsys.core.facts import Facts

from .desired import Desired
from .plan import Change, HostPlan
from .resources import Setting


def plan_host(host_id: str, hostname: str, desired: Desired, facts: Facts) -> HostPlan:
    """What differs on one host, in the order of applying, and what cannot be changed there."""
    changes, notes = [], []
    for role, resource in desired.placed:
        difference = resource.compare(facts)
        if difference is not None:
            changes.append(Change(role=role, resource=resource, **difference._asdict()))
        if isinstance(resource, Setting):
            notes += _setting_note(resource, facts)
    return HostPlan(id=host_id, hostname=hostname, changes=changes, notes=notes)


def _setting_note(setting: Setting, facts: Facts) -> list[str]:
    state = facts.answers.sysctl.get(setting.name)
    if state is None or state.value is None:
        return [f"this kernel has no setting {setting.name}"]
    if not state.settable and state.value != setting.value:
        return [f"{setting.name} is {state.value} and cannot be set here; it is written for the next boot"]
    return []
