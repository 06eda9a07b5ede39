"""utils.benchmark: the numbers of measurements, and how statements run."""

import pytest
import strata
from strata.utils.benchmark import Measurement, Timer


def test_a_measurement_summarizes_its_times():
    m = Measurement(number_per_run=2, raw_times=[2e-6, 4e-6, 6e-6], stmt="x + 1", label="add", sub_label="small")
    assert m.times == pytest.approx([1e-6, 2e-6, 3e-6]) and m.median == pytest.approx(2e-6)
    assert m.mean == pytest.approx(2e-6) and m.iqr == pytest.approx(1e-6)
    assert repr(m) == "add: small\n  2.00 us\n  3 measurements, 2 runs per measurement, 1 thread"
    assert Measurement(1, [1.0], "x").iqr == 0


def test_statements_run_as_often_as_asked():
    seen = []
    found = Timer("seen.append(n)", setup="n = 3", globals={"seen": seen}).timeit(200)
    assert seen == [3] * 202 and found.number_per_run == 200 and len(found.raw_times) == 1 and found.median > 0
    assert found.title == "seen.append(n)"


def test_blocks_are_repeated_for_the_time():
    blocks = []
    found = Timer("x + 1", globals={"x": strata.ones(2)}).blocked_autorange(
        callback=lambda number, seconds: blocks.append((number, seconds)), min_run_time=0.02
    )
    assert sum(found.raw_times) >= 0.02 and [b[1] for b in blocks] == found.raw_times
    assert {b[0] for b in blocks} == {found.number_per_run}
    again = Timer("x + 1", globals={"x": strata.ones(2)}).adaptive_autorange(max_run_time=0.05)
    assert len(again.raw_times) >= 3 or sum(again.raw_times) >= 0.05


def test_threads_are_set_while_it_runs():
    before, seen = strata.get_num_threads(), []
    Timer("seen.append(get())", globals={"seen": seen, "get": strata.get_num_threads}, num_threads=1).timeit(2)
    assert set(seen) == {1} and strata.get_num_threads() == before


def test_only_python_is_timed():
    with pytest.raises(NotImplementedError, match="must be Python"):
        Timer("x", language="cpp")
