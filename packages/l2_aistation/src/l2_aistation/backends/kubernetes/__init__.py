"""The engine `kubernetes`: pods that no scheduler but ours may place, bound by the Binding call.

Node ids are Kubernetes' node names.  A pod is an attempt's part on a node; it is created behind a gate
that opens when all pods of its gang are there, so a gang is bound whole or not at all.
"""

from __future__ import annotations

from l2_aistation._kit.problems import BadInput, Unavailable
from l2_aistation.backends.mailbox import MailboxEngine
from l2_aistation.settings import Settings

from .manager import KubernetesManager
from .objects import Shape


def create(settings: Settings) -> MailboxEngine:
    """The engine with the cluster that kubeconfig, or the pod that this runs in, names."""
    if settings.kubernetes_image is None:
        raise BadInput(
            "is not set",
            field="kubernetes_image",
            do="name an image that holds this package and the jobs' needs",
        )
    root = settings.shared / ".aistation.kubernetes"
    shape = Shape(
        image=settings.kubernetes_image,
        shared=settings.shared,
        claim=settings.kubernetes_claim,
        accelerator=settings.kubernetes_accelerator,
        python=settings.node_python or "python3",
        heartbeat_s=settings.heartbeat_s,
    )
    manager = KubernetesManager(_api(), settings.kubernetes_namespace, root, shape)
    return MailboxEngine(manager, root / "nodes", heartbeat_s=settings.heartbeat_s)


def _api() -> object:
    try:
        from kubernetes import client, config
    except ImportError as error:
        raise Unavailable(
            "the Kubernetes client is not installed",
            why=str(error),
            do="pip install 'l2-aistation[kubernetes]'",
        ) from error
    try:
        config.load_config()
    except Exception as error:
        raise Unavailable(
            "no Kubernetes cluster is configured",
            why=str(error),
            do="set KUBECONFIG, or run inside the cluster",
        ) from error
    return client.CoreV1Api()


__all__ = ["KubernetesManager", "Shape", "create"]
