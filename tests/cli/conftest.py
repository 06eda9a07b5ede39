import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))


@pytest.fixture(scope="session")
def digits(tmp_path_factory):
    from small_mnist import write_small_mnist

    return write_small_mnist(tmp_path_factory.mktemp("mnist"))
