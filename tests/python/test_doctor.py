"""The doctor: every check finds what it is for on a machine that was broken so, and nothing on one that is fine."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import fake_machine
import pytest
import strata
from doctor_cases import CASES, cpu_only, mac, wsl
from fake_machine import CUDA, LIB, PACKAGES, TORCH, Machine, stub
from strata import _C

CHECKS = {c["id"]: c for c in _C._doctor_checks()}
# Found by the probes, on a device, or in a process whose device has failed: tests/system/doctor_test.cpp, and below.
BY_DEVICES = {id for id in CHECKS if id.startswith("probe.")} | {"gpu.failed"}


@pytest.fixture(scope="module", autouse=True)
def stubs():
    yield
    fake_machine.remove_stubs()


@pytest.fixture
def machine(tmp_path):
    made = Machine(tmp_path / "root")
    yield made
    made.at("/home/user/.cache").chmod(0o755)


def test_a_clean_machine_has_no_finding(machine):
    report = machine.examine()
    assert report.ids == [] and report.status == 0 and report.ok
    assert report.checked == len(CHECKS)
    facts = {(f["section"], f["name"]): f["value"] for f in report.facts}
    assert facts["driver", "kernel module"] == "550.54.15"
    assert facts["gpu", "cuda:0"].startswith("Stub GPU, compute capability 9.0, 8.0 GiB")
    assert facts["libraries", "cuDNN"].startswith("9.1.0 /usr/local/cuda-12.4/lib64/libcudnn.so.9.1.0")
    assert facts["torch", "torch.cuda.is_available()"] == "True"


@pytest.mark.parametrize("change", [mac, wsl, Machine.in_container, Machine.without_gpu])
def test_other_kinds_of_clean_machines(machine, change):
    change(machine)
    found = set(machine.examine(torch=False).ids)
    assert found <= {"gpu.none"} and (not found or change is Machine.without_gpu)


def test_every_check_has_a_case():
    assert set(CASES) == set(CHECKS) - BY_DEVICES


@pytest.mark.parametrize("id", sorted(CASES))
def test_every_check_finds_its_failure(machine, id):
    CASES[id][0](machine)
    report = machine.examine()
    assert id in report.ids
    assert set(report.ids) == {id, *CASES[id][1]}, report
    finding = next(f for f in report.findings if f["id"] == id)
    assert finding["evidence"] and all(finding["evidence"])
    worst = max(2 if f["severity"] == "error" else 1 for f in report.findings)
    assert report.status == worst
    assert id in str(report) and finding["fix"].splitlines()[0] in str(report)


def test_every_check_is_explained():
    for id, c in CHECKS.items():
        assert id.startswith(c["section"] + ".") and c["severity"] in ("error", "warning")
        assert len(c["explanation"]) > 20 and c["fix"] and not c["title"].endswith(".")
        text = strata.doctor(explain=id)
        assert c["title"] in text and c["fix"] in text and c["page"] in text
    assert len(CHECKS) == len(_C._doctor_checks())


def test_topics_and_wrong_names():
    text = strata.doctor(explain="legacy-macos")
    for word in ("10.13", "10.2", "sm_61", "web driver", "TORCH_CUDA_ARCH_LIST=6.1", "DYLD_LIBRARY_PATH"):
        assert word in text
    for topic in _C._doctor_topics():
        for word in strata.doctor(explain=topic).split():  # the ids that topics name exist
            if word.split(".")[0] in {c["section"] for c in CHECKS.values()} and "-" in word:
                assert word.rstrip(",.)") in CHECKS or "doctor" in word
    with pytest.raises(ValueError, match="driver.too-old"):
        strata.doctor(explain="too-old")
    with pytest.raises(ValueError, match="there is no section 'gpus'; there are driver, gpu"):
        strata.doctor(sections="gpus")
    with pytest.raises(ValueError, match="no device 'zork'"):
        strata.doctor(device="zork")
    with pytest.raises(ValueError, match="not 'cpu'"):
        strata.doctor(device="cpu")
    with pytest.raises(ValueError, match="seconds is"):
        strata.doctor(timeout=0)


def test_sections_limit_the_checks(machine):
    machine.nvml(ECC=1)
    machine.environment["CUDA_LAUNCH_BLOCKING"] = "1"
    assert machine.examine(sections="gpu", torch=False).ids == ["gpu.ecc-errors"]
    report = machine.examine(sections=["environment", "python"], torch=False)
    assert report.ids == ["environment.launch-blocking"] and report.sections == ["python", "environment"]


@pytest.mark.parametrize("kind", ["HANG", "CRASH"])
def test_libraries_that_hang_or_crash_are_findings(machine, kind):
    machine.library(f"{LIB}/libcuda.so.550.54.15", **{kind: 1})
    report = machine.examine(timeout=0.3, sections="driver", torch=False)
    assert report.ids == ["driver.library-broken"]
    assert ("did not answer" if kind == "HANG" else "signal 6") in report.findings[0]["evidence"][0]


def test_an_interpreter_that_hangs_is_a_finding(machine):
    machine.write("/usr/bin/python3", "#!/bin/sh\nsleep 1000\n", 0o755)
    report = machine.examine(timeout=0.5, sections="torch")
    assert report.ids == ["torch.import-fails"] and "did not answer" in report.findings[0]["evidence"][0]


@pytest.mark.parametrize(
    "answer", ["", "[]", "no JSON", "{", '{"version": 3, "architectures": [1, {}]}', "\0\xff" * 100]
)
def test_answers_of_an_interpreter_that_make_no_sense(machine, answer):
    machine.write("/usr/bin/python3", f"#!/bin/sh\nprintf '%s' '{answer.replace(chr(0), '')}'\n", 0o755)
    json.loads(machine.examine(sections="torch").to_json())


def test_the_interpreter_of_the_environment_of_the_package_is_asked(machine):
    machine.environment["VIRTUAL_ENV"] = "/opt/venv"
    machine.write(
        "/opt/venv/lib/python3.11/site-packages/torch/version.py", "__version__ = '2.9.0'\ncuda = '13.0'\nhip = None\n"
    )
    told = json.dumps({"version": "2.9.0", "cuda": "13.0", "failure": "told by the environment"})
    machine.write("/opt/venv/bin/python3", f"#!/bin/sh\necho '{told}'\n", 0o755)
    report = machine.examine()
    assert "told by the environment" in report.findings[-1]["evidence"][0]


def test_loops_of_links_and_odd_files_do_no_harm(machine):
    machine.link("/usr/local/cuda-9", "cuda-10")
    machine.link("/usr/local/cuda-10", "cuda-9")
    os.mkfifo(machine.at("/var") if machine.at("/var").mkdir() else machine.at("/var/kern.log"))
    machine.at("/var/log").mkdir()
    os.mkfifo(machine.at("/var/log/kern.log"))
    machine.write("/etc/ld.so.conf.d/odd.conf", b"\0\xff\n" * 1000 + b"/usr/local/cuda-9\n")
    machine.write(f"{GPU_WIDTH}", "99999999999999999999\n")
    machine.write(f"{PACKAGES}/x-.dist-info/METADATA")
    machine.write(f"{PACKAGES}/nvidia_cu-cu.dist-info/METADATA", "Requires-Dist: nvidia-==\n")
    machine.environment["TORCH_CUDA_ARCH_LIST"] = ";;+PTX a \xff"
    machine.environment["CUDA_VISIBLE_DEVICES"] = ",,-1,"
    json.loads(machine.examine().to_json())


GPU_WIDTH = f"{fake_machine.GPU}/current_link_width"


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_gives_a_report(machine, seed):
    import random

    chance = random.Random(seed)
    for change in chance.sample(sorted(CASES), 6):
        CASES[change][0](machine)
    files = sorted(p for p in machine.root.rglob("*") if p.is_file() and ".so" not in p.name and p.name != "python3")
    for file in chance.sample(files, min(8, len(files))):
        kind = chance.randrange(4)
        if kind == 0:
            file.unlink()
        elif kind == 1:
            file.write_bytes(chance.randbytes(chance.randrange(300)))
        elif kind == 2:
            file.write_bytes(file.read_bytes()[: chance.randrange(20)])
        else:
            file.unlink()
            file.mkdir()
    report = machine.examine(timeout=5)
    assert report.status in (0, 1, 2) and (report.status == 0) == (not report.findings)


def test_fix_hints_are_a_shell_script(machine):
    CASES["driver.permissions"][0](machine)
    machine.environment["CUDA_LAUNCH_BLOCKING"] = "1"
    script = machine.examine().fix_hints
    assert script.startswith("#!/bin/sh\n") and "unset CUDA_LAUNCH_BLOCKING" in script
    for id in CASES:  # nothing in a fix is a syntax error, with <placeholders> in comments or after the command
        fix = CHECKS[id]["fix"].replace("<", "").replace(">", "").replace("…", "")
        done = subprocess.run(["sh", "-n"], input=fix, text=True, capture_output=True)
        assert done.returncode == 0 or not shutil.which("sh"), f"{id}: {done.stderr}"


def test_evidence_cannot_add_lines_to_the_script(machine):
    machine.environment["CUDA_HOME"] = "/x\nrm -rf /"
    script = machine.examine().fix_hints
    assert not any(line.startswith("rm") for line in script.splitlines())


def test_it_is_shown_in_notebooks_with_escaped_texts(machine):
    machine.environment["CUDA_HOME"] = "/<script>alert(1)</script>"
    html = machine.examine()._repr_html_()
    assert "<script>" not in html and "&lt;script&gt;" in html


def test_the_probes_run_on_the_virtual_gpu():
    report = strata.doctor(sections="probe", device="vgpu")
    assert report.ids == [] and report.probed == "vgpu"
    names = [p["name"] for p in report.probes]
    assert {f"probe.{n}" for n in [*names, "open"]} == {id for id in CHECKS if id.startswith("probe.")}
    for p in report.probes:
        assert (p["ms"] is not None and p["ms"] >= 0) != bool(p["skipped"])


def child(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment}, timeout=120
    )


def test_two_devices_copy_to_each_other():
    code = "import strata; r = strata.doctor(sections='probe', device='vgpu:1'); print([p['name'] for p in r.probes if p['ms']])"
    assert "peer-copy" in child(code, STRATA_VGPU_DEVICES="ampere,hopper").stdout


def test_a_compiler_that_fails_is_a_finding():
    code = "import strata; print(strata.doctor(sections='probe', device='vgpu'))"
    said = child(code, STRATA_NVRTC=str(stub(NVRTC=12040))).stdout
    assert "probe.nvrtc" in said and "NVRTC_ERROR_STUB" in said


def test_a_device_that_does_not_open_is_a_finding():
    report = json.loads(
        child("import strata; print(strata.doctor(sections='probe', device='cuda:99').to_json())").stdout
    )
    assert [f["id"] for f in report["findings"]] == ["probe.open"] and report["status"] == 2


def test_the_short_form_is_part_of_the_error():
    code = "import strata\ntry:\n    strata.ones(2, device='cuda')\nexcept RuntimeError as e:\n    print(e)"
    said = child(code, CUDA_VISIBLE_DEVICES="").stdout
    assert "device 'cuda' is not available" in said and "`strata doctor`" in said
    assert (
        "visible-devices-hide" in said
        or "gpu.none" in said
        or "container.no-gpu" in said
        or "looks for the cause" in said
    )


def test_this_machine_is_examined():
    report = strata.doctor()
    assert report.status in (0, 1, 2) and report.checked > 90
    assert set(report.ids) <= set(CHECKS)


def test_all_the_packages_of_an_environment_with_torch(machine):
    cpu_only(machine)
    report = machine.examine(torch=False)
    assert report.ids == ["python.cpu-only-torch"]
    assert pathlib.Path(CUDA).name in str(machine.examine(sections="toolkit", torch=False)) and TORCH["cuda"] == "12.4"
