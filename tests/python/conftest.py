"""Hypothesis profiles (``pytest --hypothesis-profile=ci``) and the real data."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

HERE = Path(__file__).parent

settings.register_profile(
    "default",
    max_examples=100,
    deadline=None,  # two cores, shared
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile("default")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder shared/data beside some folder above this file; skip without it."""
    for folder in HERE.parents:
        if (folder / "shared" / "data").is_dir():
            return folder / "shared" / "data"
    pytest.skip(f"no folder shared/data beside any folder above {HERE}")
