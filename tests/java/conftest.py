import pytest

from pagedkv.java import start


@pytest.fixture(scope="session", autouse=True)
def jvm():
    """One JVM serves the whole test process: it cannot be started twice."""
    start()
