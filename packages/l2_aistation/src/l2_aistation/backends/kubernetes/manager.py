"""Kubernetes as a manager of wardens, through the official client."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from l2_aistation._kit.files import atomic_write
from l2_aistation._kit.problems import Unavailable
from l2_aistation.backends.mailbox.manager import Key, Ticket
from l2_aistation.core.events import StartTasks
from l2_aistation.supervisor.mailbox import Box

from . import objects
from .objects import Shape

_GRACE_S = 5
_NODES_EVERY_S = 5.0
_KEPT_S = 600.0
"""A pod that is over stays for so long, for people to look at; then it is deleted."""

_LONGEST_S = 30.0
_CONFLICT = 409
_NOT_FOUND = 404


class KubernetesManager:
    """Orders are pods.  `api` is a `kubernetes.client.CoreV1Api`."""

    name = "kubernetes"

    def __init__(self, api: Any, namespace: str, folder: Path, shape: Shape) -> None:
        self._api, self._namespace, self._folder, self._shape = api, namespace, folder, shape
        self._installation = ""
        self._pods: list[dict[str, Any]] = []
        self._nodes: Mapping[str, str] = {}
        self._looked = -_NODES_EVERY_S
        self._over: dict[str, float] = {}

    @property
    def installation(self) -> str:
        """This platform's mark on its pods, made once."""
        if not self._installation:
            path = self._folder / "installation"
            if not path.exists():
                atomic_write(path, secrets.token_hex(4), mode=0o600)
            self._installation = path.read_text(encoding="ascii")
        return self._installation

    def submit(self, start: StartTasks, box: Box) -> None:
        """A gated pod; one that is there already is the same order."""
        body = objects.pod(start, box.path, self.installation, self._shape)
        self._call(self._api.create_namespaced_pod, self._namespace, body, known=_CONFLICT)

    def tend(self) -> None:
        """Opens the gates of the gangs that are complete, and binds their pods to their nodes."""
        self._pods = self._list(
            self._api.list_namespaced_pod,
            self._namespace,
            label_selector=f"{objects.MANAGED}={self.installation}",
        )
        admitted = objects.admissible(self._pods)
        for item in admitted:
            if objects.is_gated(item):
                self._call(
                    self._api.patch_namespaced_pod,
                    item["metadata"]["name"],
                    self._namespace,
                    objects.opened(),
                    _content_type="application/merge-patch+json",
                    known=_NOT_FOUND,
                )
        for item in admitted:
            self._bind(item)
        self._tidy()

    def _tidy(self) -> None:
        now = time.monotonic()
        over = [ticket.id for ticket in self.tickets().values() if ticket.state == "over"]
        self._over = {name: self._over.get(name, now) for name in over}
        self.cancel(name for name, since in self._over.items() if now - since > _KEPT_S)

    def _bind(self, item: Mapping[str, Any]) -> None:
        key, name = objects.key_of(item), item["metadata"]["name"]
        if key is not None and not item["spec"].get("nodeName"):
            body = objects.binding(name, key.node)
            self._call(self._api.create_namespaced_pod_binding, name, self._namespace, body, known=_CONFLICT)

    def tickets(self) -> Mapping[Key, Ticket]:
        """The pods as the last round saw them, and those made since."""
        return objects.tickets(self._pods)

    def cancel(self, ids: Iterable[str]) -> None:
        """Deletes pods."""
        for name in ids:
            self._call(
                self._api.delete_namespaced_pod,
                name,
                self._namespace,
                grace_period_seconds=_GRACE_S,
                known=_NOT_FOUND,
            )

    def nodes(self) -> Mapping[str, str]:
        """The nodes that the control plane hears, asked now and then: they are many."""
        if time.monotonic() - self._looked >= _NODES_EVERY_S:
            self._nodes = objects.nodes(self._list(self._api.list_node, resource_version="0"))
            self._looked = time.monotonic()
        return self._nodes

    def unfit(self, start: StartTasks) -> str:
        """Kubernetes shares one device between pods only by plug-ins that differ from site to site."""
        if any("OGAI_ACCELERATOR_SHARE" in task.environment for task in start.tasks):
            return "parts of an accelerator are not offered on this engine; ask for whole ones"
        return ""

    def _list(self, method: Any, *arguments: Any, **options: Any) -> list[dict[str, Any]]:
        answer = json.loads(self._call(method, *arguments, **options))
        items: list[dict[str, Any]] = answer["items"]
        return items

    @staticmethod
    def _call(method: Any, *arguments: Any, known: int | None = None, **options: Any) -> bytes:
        """One request; the answer is left as it is.  `known` is a refusal that means: done already."""
        try:
            answer = method(*arguments, _preload_content=False, _request_timeout=_LONGEST_S, **options)
        except Exception as error:
            if known is not None and getattr(error, "status", None) == known:
                return b""
            why = getattr(error, "body", None) or str(error)
            raise Unavailable(f"{method.__name__} failed", why=str(why)[:500]) from error
        data: bytes = answer.data
        return data
