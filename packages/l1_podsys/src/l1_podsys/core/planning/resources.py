"""The kinds of things a plan manages.

A kind says two things: what to ask the probe (`ask`), and how what is wanted differs from what is
there (`compare`).  Adding a kind is adding a class here and the module that sets it in `roles/`.
"""

from __future__ import annotations

import difflib
import hashlib
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field

from l1_podsys._kit.documents import Part
from l1_podsys.core.facts import Facts, FileState

HOSTS_BLOCK = ("# BEGIN podsys", "# END podsys")


class Difference(NamedTuple):
    """What is there, what shall be, and the change of a text as a unified diff."""

    before: str
    after: str
    diff: str = ""


def digest_text(text: str) -> str:
    """`sha256:…` of a text."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


class File(Part):
    """A whole file, or with `block` the lines of it between our two marks."""

    kind: Literal["file"] = "file"
    path: str
    digest: str
    content: str | None = Field(default=None, description="absent for a secret: it is built at apply")
    mode: str = "0644"
    owner: str = "root"
    group: str = "root"
    block: bool = False
    parents_mode: str = "0755"
    restarts: str | None = Field(default=None, description="unit that reads this file when it starts")

    @classmethod
    def of(cls, path: str, content: str, **fields: Any) -> File:
        """A file with this text."""
        return cls(path=path, content=content, digest=digest_text(content), **fields)

    @property
    def name(self) -> str:
        return self.path

    @property
    def secret(self) -> bool:
        return self.digest.startswith("hmac:")

    def ask(self, request: dict[str, Any]) -> None:
        """Adds this file's question to a probe request."""
        question: dict[str, Any] = {"digest": self.digest}
        if self.secret:
            question["secret"] = True
        if self.block:
            question["block"] = HOSTS_BLOCK
        request.setdefault("files", {})[self.path] = question

    def compare(self, facts: Facts) -> Difference | None:
        """The difference to what the host has."""
        state = facts.answers.files.get(self.path, FileState(kind="absent"))
        wanted = "secret" if self.secret else "block" if self.block else "file"
        wanted += "" if self.block else f" {self.mode} {self.owner}:{self.group}"
        if state.kind != "file":
            note = f": {state.why}" if state.why else ""
            return Difference(state.kind + note, wanted, self._unified(""))
        rights = (state.mode, state.owner, state.group)
        if not self.block and rights != (self.mode, self.owner, self.group):
            return Difference(f"file {state.mode} {state.owner}:{state.group}", wanted)
        if state.digest == self.digest:
            return None
        return Difference("other content", wanted, self._unified(state.text))

    def _unified(self, before: str | None) -> str:
        if self.content is None or before is None:
            return ""
        lines = difflib.unified_diff(before.splitlines(), self.content.splitlines(), lineterm="", n=1)
        return "\n".join(list(lines)[2:])


class Link(Part):
    """A symbolic link; with `absent_is_same` a missing one means what the target says."""

    kind: Literal["link"] = "link"
    path: str
    target: str
    absent_is_same: bool = False

    @property
    def name(self) -> str:
        return self.path

    def ask(self, request: dict[str, Any]) -> None:
        """Adds the question for the link."""
        request.setdefault("files", {})[self.path] = {}

    def compare(self, facts: Facts) -> Difference | None:
        """The difference to where it points."""
        state = facts.answers.files.get(self.path, FileState(kind="absent"))
        if state.kind == "link" and state.target == self.target:
            return None
        if state.kind == "absent" and self.absent_is_same:
            return None
        return Difference(state.target or state.kind, self.target)


class Setting(Part):
    """A running kernel setting; where it cannot be set (a container) only its file counts."""

    kind: Literal["sysctl"] = "sysctl"
    name: str
    value: str

    def ask(self, request: dict[str, Any]) -> None:
        """Adds the question for the setting."""
        request.setdefault("sysctl", []).append(self.name)

    def compare(self, facts: Facts) -> Difference | None:
        """The difference to the running value."""
        state = facts.answers.sysctl.get(self.name)
        if state is None or not state.settable or state.value == self.value:
            return None
        return Difference(str(state.value), self.value)


class Account(Part):
    """A user account with its groups."""

    kind: Literal["user"] = "user"
    name: str
    uid: int | None = None
    groups: list[str] = Field(default_factory=list)
    shell: str
    home: str

    def ask(self, request: dict[str, Any]) -> None:
        """Adds the question for the account."""
        request.setdefault("users", []).append(self.name)

    def compare(self, facts: Facts) -> Difference | None:
        """The difference to the account there."""
        state = facts.answers.users.get(self.name)
        wanted = f"uid={self.uid or 'any'} shell={self.shell} groups={','.join(sorted(self.groups)) or '-'}"
        if state is None:
            return Difference("absent", wanted)
        same = (
            (self.uid is None or state.uid == self.uid)
            and state.shell == self.shell
            and set(self.groups) <= set(state.groups)
        )
        if same:
            return None
        have = f"uid={state.uid} shell={state.shell} groups={','.join(state.groups) or '-'}"
        return Difference(have, wanted)


class Deb(Part):
    """One file of an offline bundle."""

    package: str
    version: str
    file: str
    sha256: str


class Package(Part):
    """A Debian package from the offline bundle, with what it needs that a host may lack."""

    kind: Literal["package"] = "package"
    name: str
    version: str
    closure: list[Deb]
    restarts: str | None = None

    def ask(self, request: dict[str, Any]) -> None:
        """Adds the question for the package and its dependencies."""
        request.setdefault("packages", []).extend(deb.package for deb in self.closure)

    def compare(self, facts: Facts) -> Difference | None:
        """The difference to the installed version."""
        have = facts.answers.packages.get(self.name)
        return None if have == self.version else Difference(have or "absent", self.version)

    def needed(self, facts: Facts) -> list[Deb]:
        """The files to install on this host: the package, and dependencies that it lacks."""
        have = facts.answers.packages
        return [deb for deb in self.closure if deb.package == self.name or deb.package not in have]


class Unit(Part):
    """A systemd unit that is enabled and runs; an optional one only where it is installed."""

    kind: Literal["unit"] = "unit"
    name: str
    optional: bool = False

    def ask(self, request: dict[str, Any]) -> None:
        """Adds the question for the unit."""
        request.setdefault("units", []).append(self.name)

    def compare(self, facts: Facts) -> Difference | None:
        """The difference to its state; a container never runs the host's own time service."""
        state = facts.answers.units.get(self.name)
        loaded = state is not None and state.load == "loaded"
        if self.optional and (not loaded or facts.container):
            return None
        if state is None or not loaded:
            return Difference("absent", "enabled, active")
        if state.active == "active" and state.enabled.startswith(("enabled", "static")):
            return None
        have = f"{state.enabled or 'no state'}, {state.active} ({state.result or state.sub})"
        return Difference(have, "enabled, active", "\n".join(state.log))


class Wheel(Part):
    """A wheel unpacked into a folder of its own; a mark in the folder holds its digest."""

    kind: Literal["wheel"] = "wheel"
    name: str
    folder: str
    sha256: str
    file: str = Field(description="name of the wheel's file")
    restarts: str | None = None

    MARK: ClassVar[str] = ".podsys-wheel"

    @property
    def mark(self) -> str:
        return f"{self.folder}/{self.MARK}"

    def ask(self, request: dict[str, Any]) -> None:
        """Adds the question for the mark."""
        request.setdefault("files", {})[self.mark] = {"digest": digest_text(self.sha256 + "\n")}

    def compare(self, facts: Facts) -> Difference | None:
        """The difference to the unpacked wheel."""
        state = facts.answers.files.get(self.mark, FileState(kind="absent"))
        if state.digest == digest_text(self.sha256 + "\n"):
            return None
        return Difference("absent" if state.kind != "file" else "damaged", self.file)


Resource = Annotated[
    File | Link | Setting | Account | Package | Unit | Wheel,
    Field(discriminator="kind"),
]
