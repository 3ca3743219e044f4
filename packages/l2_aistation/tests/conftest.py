"""The published kits assert as tests do."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("l2_aistation.testing")
