"""A folder that looks like the root of a machine with an NVIDIA GPU, for tests of the doctor and of `strata devices`."""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

STUB = r"""
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef CRASH
__attribute__((constructor)) static void crash(void) { abort(); }
#endif
#ifdef HANG
__attribute__((constructor)) static void hang(void) { for (;;) pause(); }
#endif
#ifdef DRIVER
int cuDriverGetVersion(int* v) { *v = DRIVER; return 0; }
int cuInit(unsigned f) { return INIT; }
int cuGetErrorName(int e, const char** n) { *n = "CUDA_ERROR_STUB"; return 0; }
int cuDeviceGetCount(int* n) { *n = COUNT; return 0; }
int cuDeviceGet(int* d, int i) { *d = i; return 0; }
int cuDeviceGetName(char* n, int l, int d) { strncpy(n, "Stub GPU", l); return 0; }
int cuDeviceTotalMem_v2(size_t* b, int d) { *b = 8ul << 30; return 0; }
int cuDeviceGetAttribute(int* v, int a, int d) { *v = a == 75 ? MAJOR : a == 76 ? MINOR : a == 20 ? MODE : 0; return 0; }
int cuDeviceGetPCIBusId(char* n, int l, int d) { strncpy(n, "0000:01:00.0", l); return 0; }
#endif
#ifdef NVML
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void** d) { *d = (void*)1; return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* b, void** d) { *d = (void*)1; return 0; }
int nvmlDeviceGetMemoryInfo(void* d, unsigned long long* m) {
  m[0] = 8ul << 30; m[1] = (unsigned long long)FREE << 20; m[2] = m[0] - m[1]; return 0;
}
int nvmlDeviceGetTotalEccErrors(void* d, int t, int c, unsigned long long* n) { *n = ECC; return 0; }
int nvmlDeviceGetMigMode(void* d, unsigned* a, unsigned* b) { *a = *b = MIG; return 0; }
int nvmlSystemGetDriverVersion(char* t, unsigned n) { strncpy(t, "550.54.15", n); return 0; }
#endif
#ifdef RUNTIME
int cudaRuntimeGetVersion(int* v) { *v = RUNTIME; return 0; }
#endif
#ifdef NVRTC
int nvrtcVersion(int* a, int* b) { *a = NVRTC / 1000; *b = NVRTC % 1000 / 10; return 0; }
int nvrtcCreateProgram(void** p, const char* s, const char* n, int k, const char* const* h, const char* const* i) { return 4; }
int nvrtcCompileProgram(void* p, int n, const char* const* o) { return 6; }
int nvrtcGetPTXSize(void* p, size_t* n) { return 4; }
int nvrtcGetPTX(void* p, char* t) { return 4; }
int nvrtcGetProgramLogSize(void* p, size_t* n) { return 4; }
int nvrtcGetProgramLog(void* p, char* t) { return 4; }
int nvrtcDestroyProgram(void** p) { return 0; }
const char* nvrtcGetErrorString(int e) { return "NVRTC_ERROR_STUB"; }
int nvrtcAddNameExpression(void* p, const char* t) { return 0; }
int nvrtcGetLoweredName(void* p, const char* t, const char** n) { return 4; }
#endif
#ifdef LT
size_t cublasLtGetVersion(void) { return LT; }
#endif
#ifdef CUDNN
size_t cudnnGetVersion(void) { return CUDNN; }
#endif
#ifdef NCCL
int ncclGetVersion(int* v) { *v = NCCL; return 0; }
#endif
"""

_cache = {}


def stub(**values):
    """The path of a shared library with the functions that the values ask for."""
    key = json.dumps(values, sort_keys=True)
    if key not in _cache:
        folder = pathlib.Path(tempfile.gettempdir()) / f"strata-stubs-{os.getuid()}-{os.getpid()}"
        folder.mkdir(exist_ok=True)
        path = folder / f"{hashlib.sha256(key.encode()).hexdigest()[:16]}.so"
        compiler = os.environ.get("CC") or shutil.which("cc") or shutil.which("gcc")
        flags = [f"-D{name}={value}" for name, value in values.items()]
        command = [*compiler.split(), "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", path, *flags]
        subprocess.run(command, input=STUB, text=True, check=True)
        _cache[key] = path
    return _cache[key]


def remove_stubs():
    for path in _cache.values():
        path.unlink(missing_ok=True)
    for folder in {p.parent for p in _cache.values()}:
        shutil.rmtree(folder, ignore_errors=True)
    _cache.clear()


GPU = "/sys/bus/pci/devices/0000:01:00.0"
LIB = "/usr/lib/x86_64-linux-gnu"
CUDA = "/usr/local/cuda-12.4"
PACKAGES = "/usr/lib/python3.11/dist-packages"
DRIVER = dict(DRIVER=12040, INIT=0, COUNT=1, MAJOR=9, MINOR=0, MODE=0)
NVML = dict(NVML=1, FREE=7000, ECC=0, MIG=0)
TORCH = {"version": "2.5.1+cu124", "cuda": "12.4", "available": True, "architectures": ["sm_80", "sm_90"]}


class Machine:
    """Below `root`; `examine()` runs the doctor on it."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.environment = {"PATH": f"/usr/bin:{CUDA}/bin", "HOME": "/home/user"}
        self.options = {"architectures": "80 90"}
        self._driver()
        self._toolkit()
        self._python()

    def at(self, path):
        return self.root / path.lstrip("/")

    def write(self, path, content="", mode=0o644):
        file = self.at(path)
        self.remove(path)
        for parent in file.parents:
            if parent.is_file() and parent != self.root:
                parent.unlink()
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        file.chmod(mode)

    def link(self, path, target):
        self.remove(path)
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        self.at(path).symlink_to(target)

    def remove(self, path):
        file = self.at(path)
        if file.is_symlink() or file.is_file():
            file.unlink()
        elif file.is_dir():
            shutil.rmtree(file)

    def library(self, path, **values):
        """A stub under its full name, and the link that programs open: libx.so.12.4.5 and libx.so.12."""
        self.remove(path)
        self.at(path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(stub(**values), self.at(path))
        folder, name = path.rsplit("/", 1)
        stem, _, version = name.partition(".so.")
        major = "1" if stem in ("libcuda", "libnvidia-ml") else version.split(".")[0]
        if version != major:
            self.link(f"{folder}/{stem}.so.{major}", name)

    def driver(self, version="550.54.15", **changes):
        for name in list(self.at(LIB).glob("libcuda.so*")) if self.at(LIB).exists() else ():
            name.unlink()
        self.library(f"{LIB}/libcuda.so.{version}", **{**DRIVER, **changes})

    def nvml(self, **changes):
        self.library(f"{LIB}/libnvidia-ml.so.550.54.15", **{**NVML, **changes})

    def torch(self, answer, version="2.5.1+cu124", cuda="'12.4'", status=0):
        """What torch/version.py says, and what the interpreter answers."""
        self.write(
            f"{PACKAGES}/torch/version.py", f"__version__ = '{version}'\ncuda: Optional[str] = {cuda}\nhip = None\n"
        )
        text = f"#!/bin/sh\ncat <<'END'\n{json.dumps(answer)}\nEND\nexit {status}\n"
        self.write("/usr/bin/python3", text, 0o755)

    def without_gpu(self):
        """No NVIDIA hardware and no driver."""
        for path in ("/sys/bus", "/proc/modules", "/proc/driver", "/dev", "/lib/modules"):
            self.remove(path)
        for name in ("libcuda.so.1", "libcuda.so.550.54.15", "libnvidia-ml.so.1", "libnvidia-ml.so.550.54.15"):
            self.remove(f"{LIB}/{name}")

    def in_container(self):
        self.write("/.dockerenv")

    def examine(self, **more):
        import strata

        return strata.doctor(root=self.root, environment=self.environment, **{"torch": True, **self.options, **more})

    def _driver(self):
        self.write("/proc/modules", "nvidia_uvm 1 0 - Live\nnvidia 1 1 nvidia_uvm, Live 0x0\n")
        self.write(
            "/proc/driver/nvidia/version",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\nGCC version: 12\n",
        )
        self.write("/proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: Stub GPU\n")
        self.write("/proc/sys/kernel/osrelease", "6.1.0-18-amd64\n")
        self.write("/lib/modules/6.1.0-18-amd64/updates/dkms/nvidia.ko")
        for name, text in dict(
            vendor="0x10de", current_link_width="16", max_link_width="16", **{"class": "0x030200"}
        ).items():
            self.write(f"{GPU}/{name}", text + "\n")
        self.write("/sys/bus/pci/devices/0000:00:00.0/vendor", "0x8086\n")
        for node in ("nvidiactl", "nvidia-uvm", "nvidia0"):
            self.write(f"/dev/{node}", mode=0o666)
        self.driver()
        self.nvml()

    def _toolkit(self):
        self.write(f"{CUDA}/bin/nvcc", mode=0o755)
        self.write(f"{CUDA}/version.json", '{"cuda": {"name": "CUDA SDK", "version" : "12.4.1"}}')
        self.link("/usr/local/cuda", "cuda-12.4")
        lib = f"{CUDA}/lib64"
        self.library(f"{lib}/libcudart.so.12.4.127", RUNTIME=12040)
        self.library(f"{lib}/libnvrtc.so.12.4.127", NVRTC=12040)
        self.library(f"{lib}/libcublas.so.12.4.5", EMPTY=1)
        self.library(f"{lib}/libcublasLt.so.12.4.5", LT=120405)
        self.library(f"{lib}/libcudnn.so.9.1.0", CUDNN=90100)
        for part in ("ops", "cnn", "graph", "adv"):
            self.library(f"{lib}/libcudnn_{part}.so.9.1.0", EMPTY=1)
        self.library(f"{lib}/libnccl.so.2.21.5", NCCL=22105)
        self.write("/etc/ld.so.conf", "include /etc/ld.so.conf.d/*.conf\n")
        self.write("/etc/ld.so.conf.d/cuda.conf", "# CUDA\n/usr/local/cuda/lib64\n")
        names = (
            "cudart",
            "nvrtc",
            "cublas",
            "cublasLt",
            "cudnn",
            "cudnn_ops",
            "cudnn_cnn",
            "cudnn_graph",
            "cudnn_adv",
            "nccl",
        )
        self.write("/etc/ld.so.cache", "".join(f"/usr/local/cuda/lib64/lib{n}.so\0" for n in names))

    def _python(self):
        self.torch(TORCH)
        requires = 'Name: torch\nRequires-Dist: nvidia-cudnn-cu12==9.1.0.70; platform_system == "Linux"\n'
        self.write(f"{PACKAGES}/torch-2.5.1+cu124.dist-info/METADATA", requires)
        self.write(f"{PACKAGES}/nvidia_cudnn_cu12-9.1.0.70.dist-info/METADATA", "Name: nvidia-cudnn-cu12\n")
        self.at("/home/user/.cache").mkdir(parents=True)
