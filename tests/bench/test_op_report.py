"""Tables and merged files of bench/every_op.py."""

import pathlib
import sys

import pytest

sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "bench")]

import op_report  # noqa: E402


def row(op="exp", text="f(4)", threads=1, us=1.0, torch_us=2.0, **other):
    facts = dict(n=4, layout="contiguous", dtype="float32", phase="forward", differs="")
    return facts | dict(op=op, text=text, threads=threads, us=us, torch_us=torch_us, ratio=torch_us / us) | other


def data(rows, date="2026-01-01", cases_left=0, **not_measured):
    facts = dict(date=date, processor="some", torch="2", clock="perf_counter", cases_left=cases_left)
    return dict(facts=facts, rows=rows, not_measured=not_measured)


def test_the_last_of_several_measurements_counts():
    parts = [
        data([row(us=4.0), row(op="sin")], cases_left=2, cos="no"),
        data([row(us=1.0), row(phase="train")], date="2026-01-03", tan="no"),
        data([], date="2026-01-02"),
    ]
    merged = op_report.merged(parts)
    assert [(r["op"], r["phase"], r["ratio"]) for r in merged["rows"]] == [
        ("exp", "forward", 2.0),
        ("sin", "forward", 2.0),
        ("exp", "train", 2.0),
    ]
    assert merged["facts"]["date"] == "2026-01-01 to 2026-01-03" and merged["facts"]["cases_left"] == 2
    assert merged["not_measured"] == dict(cos="no", tan="no")
    assert op_report.merged(parts[:1])["facts"]["date"] == "2026-01-01"


def test_the_report_counts_slow_rows_and_speed_with_more_threads():
    rows = [
        row(threads=1, us=8.0, torch_us=4.0),
        row(threads=4, us=2.0, torch_us=4.0),
        row(op="sum", shared=True, us=9.0),
    ]
    text = "\n".join(op_report.report(data(rows)))
    assert "| forward | float32 | contiguous | 4 | 1 | 2 | 0.33x | 1 |" in text
    assert (
        "The 1 slowest of 1 below 0.9x" in text and "counted, because PyTorch's gradient is the caller's memory" in text
    )
    assert "| pointwise | 4 | 1 | 4.00x | 1.00x |" in text
    assert "| reduce |" not in text  # measured with one number of threads only


@pytest.mark.parametrize(
    "name, folder", [("add", "pointwise"), ("linalg.det", "linalg"), ("nn.functional.glu", "pointwise")]
)
def test_each_op_has_a_family(name, folder):
    assert op_report.families()[name] == folder
