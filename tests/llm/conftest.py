"""What tests of single models share."""

import pytest


@pytest.fixture(params=[False, True], ids=["whole", "stream"])
def stream(request: pytest.FixtureRequest) -> bool:
    """Whether models are asked to stream their answers; a test that takes it runs for both."""
    return bool(request.param)
