"""cmake/EmbedCuda.cmake in a project of two kernels, with a compiler that only logs its calls: what is compiled for
which architecture, what is recompiled after a change, and the message of the configure step if a compiler is missing."""

import json
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PROJECT = """cmake_minimum_required(VERSION 3.25)
project(Small CXX)
set(STRATA_INCLUDE_DIRS ${PROJECT_SOURCE_DIR}/src)
set(Python_EXECUTABLE %s)
add_custom_target(strata_generated)
include(cmake/EmbedCuda.cmake)
add_library(small OBJECT)
strata_embed_kernels(small)
"""
# Writes what -o names, and a list of what the source includes where one is asked for.
COMPILER = """#!/bin/sh
if [ "$1" = --version ]; then echo "Cuda compilation tools, release RELEASE, V"; exit; fi
echo "$(basename $0) $*" >> LOG
while [ $# -gt 0 ]; do
  case $1 in
    -o) echo "made" > "$2"; shift ;;
    -MF) deps=$2; shift ;;
    -MT) made=$2; shift ;;
    --create=*) echo "made" > "${1#--create=}" ;;
    *.cu) source=$1 ;;
  esac
  shift
done
if [ -n "$deps" ]; then echo "$made: $source $(dirname "$source")/both.h" > "$deps"; fi
"""


class Project:
    def __init__(self, folder, release="13.0"):
        self.folder, self.log = folder, folder / "calls"
        kernels = folder / "src/cuda/linalg"
        kernels.mkdir(parents=True)
        (kernels / "old.cu").write_text("// runs everywhere\n")
        (kernels / "new.cu").write_text("// a kernel\n// ptx: compute_80\n")
        (kernels / "both.h").write_text("")
        shutil.copytree(ROOT / "cmake", folder / "cmake")
        shutil.copytree(ROOT / "tools", folder / "tools", ignore=lambda *_: ["requirements.txt"])
        (folder / "CMakeLists.txt").write_text(PROJECT % sys.executable)
        (folder / "bin").mkdir()
        for name in ("nvcc", "ptxas", "fatbinary"):
            (folder / "bin" / name).write_text(COMPILER.replace("LOG", str(self.log)).replace("RELEASE", release))
            (folder / "bin" / name).chmod(0o755)
        self.nvcc = f"-DSTRATA_NVCC={folder}/bin/nvcc"

    def configure(self, *options):
        return subprocess.run(
            ["cmake", "-G", "Ninja", "-S", self.folder, "-B", self.folder / "b", *options],
            capture_output=True,
            text=True,
            timeout=120,
        )

    def build(self):
        done = subprocess.run(
            ["ninja", "-C", self.folder / "b", "strata_kernels"], capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stdout
        return sorted(line.split()[-1] for line in done.stdout.splitlines() if "Compiling kernels of" in line)

    def calls(self, program, kernel):
        return [c for c in self.log.read_text().splitlines() if c.startswith(program + " ") and kernel in c]


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def words(text):
    return " ".join(text.split())


def test_touching_one_kernel_compiles_one(project):
    assert project.configure(project.nvcc, "-DSTRATA_CUDA_ARCHS=90a").returncode == 0
    assert project.build() == ["new.cu", "old.cu"]
    assert project.build() == []
    kernels = project.folder / "src/cuda/linalg"
    (kernels / "old.cu").touch()
    assert project.build() == ["old.cu"]
    (kernels / "both.h").touch()
    assert project.build() == ["new.cu", "old.cu"]


def test_kernels_of_another_build_tree_are_embedded(project):
    assert project.configure(project.nvcc, "-DSTRATA_CUDA_ARCHS=90a").returncode == 0
    project.build()
    compiled = (project.folder / "b/kernels").rename(project.folder / "compiled")
    assert project.configure(project.nvcc, f"-DSTRATA_KERNELS_FROM={compiled}").returncode == 0
    assert project.build() == []
    images = (project.folder / "b/kernels/images.cpp").read_text()
    for kind in ("ptx", "fatbin"):
        packed = project.folder / f"b/kernels/old.{kind}.zst"
        assert str(packed) in images
        unpacked = subprocess.run(["zstd", "-dc", packed], check=True, capture_output=True).stdout
        assert unpacked == (compiled / f"old.{kind}").read_bytes()
    assert not (project.folder / "b/kernels/old.ptx").exists()


@pytest.mark.parametrize(
    "said, known, archs",
    [
        (["9.0", "8.6", "9.0"], ["sm_86", "sm_90"], "90a 86"),
        (["12.1", "7.5"], ["sm_75", "sm_90"], "75"),  # the compiler does not know the first one
        ([], [], ""),
    ],
)
def test_architectures_of_this_machine(project, monkeypatch, said, known, archs):
    def answers(lines):
        return "".join(f"echo {line}\n" for line in lines)

    smi, nvcc = project.folder / "bin/nvidia-smi", project.folder / "bin/nvcc"
    smi.write_text(f"#!/bin/sh\n{answers(said)}exit {0 if said else 9}\n")
    smi.chmod(0o755)
    asked = f'#!/bin/sh\nif [ "$1" = --list-gpu-code ]; then\n{answers(known)}exit\nfi\n'
    nvcc.write_text(nvcc.read_text().replace("#!/bin/sh\n", asked, 1))
    monkeypatch.setenv("PATH", str(project.folder / "bin"), prepend=":")
    assert project.configure(project.nvcc).returncode == 0
    project.build()
    assert f'return "{archs}";' in (project.folder / "b/kernels/images.cpp").read_text()
    assert len(project.calls("ptxas", "old")) == len(archs.split())


def test_architectures_of_a_release(project):
    release = next(
        p for p in json.loads((ROOT / "CMakePresets.json").read_text())["configurePresets"] if p["name"] == "release"
    )
    archs = release["cacheVariables"]["STRATA_CUDA_ARCHS"]
    assert project.configure(project.nvcc, f"-DSTRATA_CUDA_ARCHS={archs}").returncode == 0
    project.build()
    made = {k: [c.split()[1].removeprefix("-arch=") for c in project.calls("ptxas", k)] for k in ("old", "new")}
    assert made["old"] == ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120"]
    assert made["new"] == made["old"][1:]
    assert "-arch=compute_75" in project.calls("nvcc", "old.cu")[0]
    assert "-arch=compute_80" in project.calls("nvcc", "new.cu")[0]
    assert '"75 80 86 89 90a 100 120"' in (project.folder / "b/kernels/images.cpp").read_text()


def test_without_nvcc_the_message_has_the_fix(project):
    done = project.configure("-DSTRATA_CUDA=ON", "-DSTRATA_NVCC=")
    assert done.returncode != 0
    said = words(done.stderr)
    assert "nvcc was not found" in said and "-DSTRATA_NVCC=/path/to/nvcc" in said and "-DSTRATA_CUDA=OFF" in said
    assert project.configure("-DSTRATA_NVCC=").returncode == 0  # and the next try starts clean, for the CPU alone


def test_legacy_needs_a_compiler_of_cuda_12(project):
    done = project.configure(project.nvcc, "-DSTRATA_CUDA_LEGACY=ON")
    assert done.returncode != 0
    said = words(done.stderr)
    assert "release 13.0" in said and "sm_61" in said and "pip install nvidia-cuda-nvrtc-cu12" in said
    assert "-DSTRATA_CUDA_LEGACY=OFF" in said


def test_legacy_with_nvcc_12(tmp_path):
    project = Project(tmp_path, release="12.4")
    assert project.configure(project.nvcc, "-DSTRATA_CUDA_LEGACY=ON", "-DSTRATA_CUDA_ARCHS=90a").returncode == 0
    project.build()
    assert any("-cubin -arch=sm_61" in c for c in project.calls("nvcc", "old.cu"))
    assert not any("sm_61" in c for c in project.calls("nvcc", "new.cu"))  # asks for compute_80
    assert "sm=61" in project.calls("fatbinary", "old")[0] and "sm=90a" in project.calls("fatbinary", "old")[0]
    assert '"61 90a"' in (project.folder / "b/kernels/images.cpp").read_text()


def test_legacy_beside_a_newer_nvcc_uses_nvrtc(project):
    """With the real one this needs CUDA 12; here the script is replaced by one that logs its calls."""
    library, headers = project.folder / "libnvrtc.so.12", project.folder / "headers"
    library.touch()
    headers.mkdir()
    (headers / "cuda_fp16.h").touch()
    (project.folder / "tools/nvrtc_cubin.py").write_text(
        f"import sys\nopen(sys.argv[4], 'w').close()\nprint('nvrtc', *sys.argv[1:], file=open({str(project.log)!r}, 'a'))\n"
    )
    options = [f"-DSTRATA_NVRTC={library}", f"-DSTRATA_NVRTC_INCLUDE={headers}", "-DSTRATA_CUDA_LEGACY=ON"]
    assert project.configure(project.nvcc, *options).returncode == 0
    project.build()
    (call,) = project.calls("nvrtc", ".cu")
    assert f"{library} 61" in call and "old.cu" in call and f"-I{project.folder}/src" in call and f"-I{headers}" in call
    assert "sm=61" in project.calls("fatbinary", "old")[0]


def test_nvrtc_tool_says_what_is_missing(tmp_path):
    command = [
        sys.executable,
        ROOT / "tools/nvrtc_cubin.py",
        tmp_path / "none.so",
        "61",
        tmp_path / "a.cu",
        tmp_path / "out",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "none.so" in done.stderr and not (tmp_path / "out").exists()
