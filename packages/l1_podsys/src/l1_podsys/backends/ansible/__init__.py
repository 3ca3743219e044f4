"""ansible-runner on the drifted (host, role) pairs, in a process of its own that ends with ours."""

from .executor import AnsibleExecutor

__all__ = ["AnsibleExecutor"]
