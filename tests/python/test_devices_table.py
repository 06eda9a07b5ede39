"""strata.devices(): peaks against published ones, numbers of dtypes against NumPy, and that everything is there."""

import json
import math
import os
import pathlib
import subprocess

import numpy as np
import pytest
import strata

BUILD = pathlib.Path(os.environ.get("STRATA_BUILD_DIR", pathlib.Path(__file__).parents[2] / "build" / "release"))
STRATA = BUILD / "bin" / "strata"
TYPES = {t["name"]: t for t in strata.dtype_table()}

# Peaks that NVIDIA publishes, in TFLOP/s: profile of the GPU, peak, number.
PUBLISHED = [
    ({"base": "ampere", "multiprocessors": 108, "clock_khz": 1410000}, "float16 (tensor cores)", 312),
    ({"base": "ampere", "multiprocessors": 108, "clock_khz": 1410000}, "tf32 (tensor cores)", 156),
    ({"base": "ampere", "multiprocessors": 108, "clock_khz": 1410000}, "int8 (tensor cores)", 624),
    ({"base": "ampere", "multiprocessors": 108, "clock_khz": 1410000}, "float64 (tensor cores)", 19.5),
    ({"base": "ampere", "multiprocessors": 108, "clock_khz": 1410000}, "float32", 19.5),
    ({"base": "ampere", "multiprocessors": 108, "clock_khz": 1410000}, "float64", 9.7),
    ({"base": "turing", "multiprocessors": 40, "clock_khz": 1590000}, "float16 (tensor cores)", 65),
    ({"base": "turing", "multiprocessors": 40, "clock_khz": 1590000}, "float32", 8.1),
    ({"base": "turing", "multiprocessors": 40, "clock_khz": 1590000}, "int8 (tensor cores)", 130),
    ({"base": "hopper", "multiprocessors": 132, "clock_khz": 1830000}, "bfloat16 (tensor cores)", 989),
    ({"base": "hopper", "multiprocessors": 132, "clock_khz": 1830000}, "float8 (tensor cores)", 1979),
    ({"base": "hopper", "multiprocessors": 132, "clock_khz": 1980000}, "float32", 67),
    ({"base": "hopper", "multiprocessors": 132, "clock_khz": 1980000}, "float64 (tensor cores)", 67),
    (
        {"base": "turing", "major": 7, "minor": 0, "multiprocessors": 80, "clock_khz": 1530000},
        "float16 (tensor cores)",
        125,
    ),
    ({"base": "ampere", "minor": 9, "multiprocessors": 142, "clock_khz": 2490000}, "bfloat16 (tensor cores)", 362),
    ({"base": "ampere", "minor": 6, "multiprocessors": 84, "clock_khz": 1740000}, "float16 (tensor cores)", 149.7),
]


def run(*arguments, status=0, **environment):
    done = subprocess.run(
        [STRATA, "devices", *arguments], capture_output=True, text=True, env={**os.environ, **environment}
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.fixture(scope="module")
def published():
    profiles = ",".join(json.dumps(p) for p, *_ in PUBLISHED)
    found = json.loads(run("--json", STRATA_VGPU_DEVICES=profiles))
    return [d for d in found if d["device"].startswith("vgpu")]


@pytest.mark.parametrize("number", range(len(PUBLISHED)))
def test_nominal_peaks_are_those_that_are_published(published, number):
    _, what, teraflops = PUBLISHED[number]
    peak = next(p for p in published[number]["peaks"] if p["what"] == what)
    assert peak["nominal"] == pytest.approx(teraflops * 1e12, rel=0.03)
    assert published[number]["peaks_from"]


def test_cores_are_counted(published):
    assert published[0]["cores"] == 6912 and published[0]["tensor_cores"] == 432
    assert published[9]["cores"] == 16896 and published[9]["tensor_cores"] == 528
    assert published[13]["cores"] == 5120 and published[13]["tensor_cores"] == 640


@pytest.mark.parametrize("name", ["float64", "float32", "float16"])
def test_floats_are_those_of_numpy(name):
    t, n = TYPES[name], np.finfo(name)
    assert (t["bits"], t["exponent_bits"], t["mantissa_bits"]) == (n.bits, n.nexp, n.nmant)
    assert t["largest"] == float(n.max) and t["smallest"] == float(n.tiny) and t["epsilon"] == float(n.eps)
    assert t["smallest_subnormal"] == float(n.smallest_subnormal)


@pytest.mark.parametrize(
    "name, bits, exponent, mantissa, largest, smallest",
    [
        ("bfloat16", 16, 8, 7, (2 - 2.0**-7) * 2.0**127, 2.0**-126),
        ("tf32", 19, 8, 10, (2 - 2.0**-10) * 2.0**127, 2.0**-126),
        ("float8_e4m3fn", 8, 4, 3, 448, 2.0**-6),
        ("float8_e5m2", 8, 5, 2, 57344, 2.0**-14),
    ],
)
def test_small_floats_follow_their_definitions(name, bits, exponent, mantissa, largest, smallest):
    t = TYPES[name]
    assert (t["bits"], t["exponent_bits"], t["mantissa_bits"]) == (bits, exponent, mantissa)
    assert (t["largest"], t["smallest"], t["epsilon"]) == (largest, smallest, 2.0**-mantissa)
    assert t["smallest_subnormal"] == smallest * 2.0**-mantissa
    assert t["digits"] == pytest.approx((mantissa + 1) * math.log10(2))


@pytest.mark.parametrize("name", [n for n in TYPES if "int" in n])
def test_integers_are_those_of_numpy(name):
    n = np.iinfo(name)
    assert TYPES[name]["largest"] == float(n.max) and TYPES[name]["smallest"] == float(n.min)
    assert TYPES[name]["bits"] == n.bits and TYPES[name]["mantissa_bits"] == 0


def test_every_dtype_of_tensors_with_one_number_is_in_the_table():
    names = {
        str(t).removeprefix("torch.").removeprefix("strata.")
        for t in vars(strata).values()
        if isinstance(t, strata.dtype)
    }
    assert names - {"bool", "complex64", "complex128"} == set(TYPES) - {"tf32"}


def test_the_cpu_is_described():
    cpu = strata.devices()[0]
    assert cpu["device"] == "cpu" and cpu["available"] and cpu["threads"] >= 1 and cpu["memory_gib"] > 0
    assert [m["name"] for m in cpu["memory"]][-1] == "memory" and all(m["bytes"] > 0 for m in cpu["memory"])
    assert all(p["nominal"] is None and p["measured"] is None for p in cpu["peaks"])


def test_measured_peaks_are_positive_and_below_nominal_ones():
    found = strata.devices(measure=True)
    for d in found:
        if not d["available"]:
            assert d["why_not"]
            continue
        measured = {p["what"]: p["measured"] for p in d["peaks"] if p["measured"]}
        assert "copy" in measured and any("float32" in name for name in measured)
        assert all(p["measured"] < 1.05 * p["nominal"] for p in d["peaks"] if p["measured"] and p["nominal"])
    assert "cpu" in str(found) and "B/s" in str(found) and "<pre>" in found._repr_html_()


def test_the_load_of_now():
    loads = strata.device_load()
    assert loads[0]["device"] == "cpu" and 0 <= loads[0]["percent"] <= 100
    assert 0 < loads[0]["memory_used"] < loads[0]["memory_total"]


def test_the_command():
    listed = run()
    assert listed.startswith("cpu ") and "vgpu:0" in listed
    details = run("--details")
    assert "float16 (tensor cores)" in details and "shared memory" in details
    assert "bfloat16" in run("--dtypes") and len(json.loads(run("--dtypes", "--json"))) == len(TYPES)
    assert run("--watch", "0.01", "--count", "3").count("cpu ") == 3
    assert [
        json.loads(line)[0]["device"] for line in run("--watch", "0.01", "--count", "2", "--json").splitlines()
    ] == ["cpu"] * 2


@pytest.mark.parametrize(
    "arguments", [["--watch", "0"], ["--watch", "-1"], ["--watch", "x"], ["--count", "0"], ["extra"]]
)
def test_wrong_options(arguments):
    assert arguments[0] in run(*arguments, status=1)


def test_a_list_of_devices_with_an_unknown_profile_is_an_error():
    assert "no device profile" in run(status=1, STRATA_VGPU_DEVICES="volta")
