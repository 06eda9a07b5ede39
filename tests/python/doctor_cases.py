"""How to bring about what each check of the doctor looks for: {id: (change, other ids that follow from it)}."""

from fake_machine import CUDA, GPU, LIB, PACKAGES, TORCH

CASES = {}


def case(id, *others):
    def add(change):
        CASES[id] = (change, others)
        return change

    return add


def no_module(m):
    m.write("/proc/modules", "ext4 1 0 - Live\n")
    m.remove("/proc/driver")
    m.remove("/dev")
    m.driver(INIT=100, COUNT=0)


@case("driver.module-missing", "driver.no-device")
def _(m):
    no_module(m)
    m.remove("/lib/modules")


@case("driver.module-not-loaded", "driver.no-device")
def _(m):
    no_module(m)


@case("driver.secure-boot", "driver.no-device")
def _(m):
    no_module(m)
    m.write("/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c", b"\x06\0\0\0\x01")


@case("driver.nouveau", "driver.no-device")
def _(m):
    no_module(m)
    m.write("/proc/modules", "nouveau 1 0 - Live\n")


@case("driver.device-nodes")
def _(m):
    m.remove("/dev/nvidia-uvm")


@case("driver.permissions")
def _(m):
    m.write("/dev/nvidia0", mode=0o600)


@case("driver.node-broken")
def _(m):
    m.write("/dev/nvidia0/not-a-device")


@case("driver.library-missing")
def _(m):
    m.remove(f"{LIB}/libcuda.so.1")
    m.remove(f"{LIB}/libcuda.so.550.54.15")


@case("driver.ldconfig")
def _(m):
    m.remove(f"{LIB}/libcuda.so.1")
    m.remove(f"{LIB}/libcuda.so.550.54.15")
    m.library("/opt/driver/libcuda.so.550.54.15", DRIVER=12040, INIT=0, COUNT=1, MAJOR=9, MINOR=0, MODE=0)
    m.write("/etc/ld.so.conf.d/driver.conf", "/opt/driver\n")


@case("driver.stub-library")
def _(m):
    m.library(f"{CUDA}/lib64/stubs/libcuda.so.1", DRIVER=12040, INIT=34, COUNT=0, MAJOR=9, MINOR=0, MODE=0)
    m.environment["LD_LIBRARY_PATH"] = f"{CUDA}/lib64/stubs"
    CASES["driver.stub-library"] = (CASES["driver.stub-library"][0], ("driver.does-not-start",))


@case("driver.shadowed", "driver.version-mismatch")
def _(m):
    m.library("/opt/old/libcuda.so.535.54.03", DRIVER=12020, INIT=0, COUNT=1, MAJOR=9, MINOR=0, MODE=0)
    m.environment["LD_LIBRARY_PATH"] = "/opt/old"


@case("driver.version-mismatch")
def _(m):
    m.driver("555.42.02", INIT=803)


@case("driver.library-broken")
def _(m):
    m.write(f"{LIB}/libcuda.so.550.54.15", b"not a library")


@case("driver.too-old", "torch.driver-too-old", "toolkit.newer-than-driver", "libraries.newer-than-driver")
def _(m):
    m.driver(DRIVER=11040)


@case("driver.no-device")
def _(m):
    m.driver(COUNT=0)


@case("driver.fabric-manager")
def _(m):
    m.driver(INIT=802)


@case("driver.compatibility-library")
def _(m):
    m.driver(INIT=804)


@case("driver.does-not-start")
def _(m):
    m.driver(INIT=999)


@case("gpu.none")
def _(m):
    m.without_gpu()


@case("gpu.off-the-bus")
def _(m):
    m.write(f"{GPU}/vendor", "0xffff\n")


@case("gpu.xid")
def _(m):
    m.write(
        "/var/log/kern.log", "Mar 1 host kernel: [1.0] NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off the bus.\n"
    )


@case("gpu.ecc-errors")
def _(m):
    m.nvml(ECC=3)


@case("gpu.compute-prohibited")
def _(m):
    m.driver(MODE=2)


@case("gpu.exclusive")
def _(m):
    m.driver(MODE=3)


@case("gpu.memory-low")
def _(m):
    m.nvml(FREE=300)


@case("gpu.mig")
def _(m):
    m.nvml(MIG=1)


@case("gpu.link-narrow")
def _(m):
    m.write(f"{GPU}/current_link_width", "4\n")


@case("build.no-kernels")
def _(m):
    m.options["architectures"] = ""


@case("build.no-kernel-image", "torch.architecture-missing")
def _(m):
    m.driver(MAJOR=6, MINOR=1)


@case("build.ptx-only", "torch.architecture-missing")
def _(m):
    m.driver(MAJOR=12)


@case("toolkit.nvcc-missing")
def _(m):
    m.environment["PATH"] = "/usr/bin"


@case("toolkit.broken-link")
def _(m):
    m.remove("/usr/local/cuda")
    m.link("/usr/local/cuda", "cuda-11.8")
    m.write("/etc/ld.so.conf.d/cuda.conf", f"{CUDA}/lib64\n")
    cache = m.at("/etc/ld.so.cache")
    cache.write_text(cache.read_text().replace("/usr/local/cuda/", f"{CUDA}/"))


@case("toolkit.several")
def _(m):
    m.write("/usr/local/cuda-11.8/bin/nvcc", mode=0o755)
    m.environment["CUDA_HOME"] = "/usr/local/cuda-11.8"


@case("toolkit.newer-than-driver")
def _(m):
    m.write("/usr/local/cuda-13.0/bin/nvcc", mode=0o755)


@case("libraries.missing")
def _(m):
    m.remove(f"{CUDA}/lib64/libnvrtc.so.12")
    m.remove(f"{CUDA}/lib64/libnvrtc.so.12.4.127")


@case("libraries.named-file-missing")
def _(m):
    m.environment["STRATA_CUDNN"] = "/opt/cudnn/libcudnn.so.9"


@case("libraries.too-old", "libraries.cudnn-mixed")
def _(m):
    m.remove(f"{CUDA}/lib64/libcudnn.so.9")
    m.remove(f"{CUDA}/lib64/libcudnn.so.9.1.0")
    m.library(f"{CUDA}/lib64/libcudnn.so.8.9.7", CUDNN=8907)


@case("libraries.broken")
def _(m):
    m.library(f"{CUDA}/lib64/libnccl.so.2.21.5", CRASH=1)


@case("libraries.shadowed")
def _(m):
    m.library("/opt/old/libnccl.so.2.18.3", NCCL=21803)
    m.environment["LD_LIBRARY_PATH"] = "/opt/old"


@case("libraries.cublas-mixed")
def _(m):
    m.remove(f"{CUDA}/lib64/libcublasLt.so.12.4.5")
    m.library(f"{CUDA}/lib64/libcublasLt.so.12.1.3", LT=120103)


@case("libraries.cudnn-mixed")
def _(m):
    m.remove(f"{CUDA}/lib64/libcudnn_graph.so.9.1.0")
    m.library(f"{CUDA}/lib64/libcudnn_graph.so.9.5.1", EMPTY=1)


@case("libraries.cuda-mixed", "libraries.newer-than-driver")
def _(m):
    m.library("/opt/new/libnvrtc.so.13.0.48", NVRTC=13000)
    m.environment["LD_LIBRARY_PATH"] = "/opt/new"


@case("libraries.newer-than-driver", "libraries.cublas-mixed")
def _(m):
    m.library("/opt/new/libnvrtc.so.13.0.48", NVRTC=13000)
    m.library("/opt/new/libcublasLt.so.13.0.2", LT=130002)
    m.environment["LD_LIBRARY_PATH"] = "/opt/new"


@case("libraries.tensorrt-missing")
def _(m):
    m.write(f"{PACKAGES}/torch_tensorrt-2.5.0.dist-info/METADATA")


def cpu_only(m, version="2.5.1+cpu"):
    m.torch({"version": version, "cuda": None, "available": False, "architectures": []}, version, "None")


@case("python.cpu-only-torch", "torch.cpu-only")
def _(m):
    cpu_only(m)


@case("python.mixed-cuda-wheels")
def _(m):
    m.write(f"{PACKAGES}/nvidia_cublas_cu11-11.11.3.6.dist-info/METADATA")


@case("python.wheel-mismatch")
def _(m):
    m.remove(f"{PACKAGES}/nvidia_cudnn_cu12-9.1.0.70.dist-info")
    m.write(f"{PACKAGES}/nvidia_cudnn_cu12-8.9.2.26.dist-info/METADATA")


@case("python.duplicate-package")
def _(m):
    m.write("/home/user/.local/lib/python3.11/site-packages/torch-2.4.0.dist-info/METADATA")


@case("environment.visible-devices-hide")
def _(m):
    m.driver(INIT=100)
    m.environment["CUDA_VISIBLE_DEVICES"] = ""


@case("environment.visible-devices-invalid")
def _(m):
    m.environment["CUDA_VISIBLE_DEVICES"] = "0,7"


@case("environment.cuda-home-missing")
def _(m):
    m.environment["CUDA_TOOLKIT_ROOT_DIR"] = "/usr/local/cuda-9"


@case("environment.cuda-home-conflict")
def _(m):
    m.at("/opt/cuda-home").mkdir(parents=True)
    m.environment |= {"CUDA_HOME": CUDA, "CUDA_PATH": "/opt/cuda-home"}


@case("environment.architecture-format")
def _(m):
    m.environment |= {"TORCH_CUDA_ARCH_LIST": "9.0 sm_90", "CMAKE_CUDA_ARCHITECTURES": "90;9.0"}


@case("environment.architecture-missing")
def _(m):
    m.environment["TORCH_CUDA_ARCH_LIST"] = "6.1;8.0"


@case("environment.library-path")
def _(m):
    m.environment["LD_LIBRARY_PATH"] = "/usr/local/cuda-9/lib64:/opt/nothing"


@case("environment.preload")
def _(m):
    m.environment["LD_PRELOAD"] = "/opt/libfast.so /opt/libcublas.so.12"


@case("environment.launch-blocking")
def _(m):
    m.environment["CUDA_LAUNCH_BLOCKING"] = "1"


@case("environment.jit")
def _(m):
    m.environment["CUDA_DISABLE_PTX_JIT"] = "1"


@case("environment.tf32-override")
def _(m):
    m.environment["NVIDIA_TF32_OVERRIDE"] = "0"


@case("environment.slow-settings")
def _(m):
    m.environment["STRATA_NO_ONEDNN"] = "1"


def container_without_driver(m):
    m.in_container()
    m.remove("/dev")
    for name in ("libcuda.so.1", "libcuda.so.550.54.15"):
        m.remove(f"{LIB}/{name}")


@case("container.no-gpu")
def _(m):
    container_without_driver(m)


@case("container.gpus-disabled")
def _(m):
    container_without_driver(m)
    m.environment["NVIDIA_VISIBLE_DEVICES"] = "void"


@case("container.capabilities")
def _(m):
    m.in_container()
    m.environment["NVIDIA_DRIVER_CAPABILITIES"] = "graphics"
    for name in ("libcuda.so.1", "libcuda.so.550.54.15"):
        m.remove(f"{LIB}/{name}")


@case("container.runtime-missing")
def _(m):
    m.write("/usr/bin/dockerd", mode=0o755)


@case("container.colab-without-gpu")
def _(m):
    m.without_gpu()
    m.environment["COLAB_RELEASE_TAG"] = "release-colab"


def wsl(m):
    m.without_gpu()
    m.write("/proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n")
    m.write("/dev/dxg", mode=0o666)
    m.library("/usr/lib/wsl/lib/libcuda.so.1", DRIVER=12040, INIT=0, COUNT=1, MAJOR=9, MINOR=0, MODE=0)


@case("container.wsl-no-device")
def _(m):
    wsl(m)
    m.remove("/dev/dxg")


@case("container.wsl-no-library")
def _(m):
    wsl(m)
    m.remove("/usr/lib/wsl/lib/libcuda.so.1")


@case("container.wsl-linux-driver")
def _(m):
    wsl(m)
    m.library(f"{LIB}/libcuda.so.1", DRIVER=12040, INIT=0, COUNT=1, MAJOR=9, MINOR=0, MODE=0)


@case("container.nixos-driver")
def _(m):
    m.write("/etc/NIXOS")


@case("container.nix-python", "torch.missing")
def _(m):
    m.write("/nix/store/abc-python3-3.11/bin/python3", mode=0o755)
    m.environment["PATH"] = f"/nix/store/abc-python3-3.11/bin:{CUDA}/bin"
    m.remove(PACKAGES)


@case("container.nix-cpu-only-torch", "torch.cpu-only")
def _(m):
    cpu_only(m, "2.5.1")
    store = "/nix/store/abc-python3.11-torch"
    m.write(f"{store}/torch/version.py", m.at(f"{PACKAGES}/torch/version.py").read_text())
    m.link(f"{PACKAGES}/torch", f"{store}/torch")


@case("container.conda-runtime")
def _(m):
    m.write("/opt/conda/lib/libstdc++.so.6.0.29")
    m.link("/opt/conda/lib/libstdc++.so.6", "libstdc++.so.6.0.29")
    m.environment["CONDA_PREFIX"] = "/opt/conda"


@case("container.conda-cpu-build")
def _(m):
    m.write("/opt/conda/conda-meta/pytorch-2.5.1-py3.11_cpu_0.json")
    m.environment["CONDA_PREFIX"] = "/opt/conda"


@case("system.cache-not-writable")
def _(m):
    m.at("/home/user/.cache").chmod(0o555)


@case("system.disk-full")
def _(m):
    m.write("/free_bytes", "1000000")


@case("system.shared-memory-small")
def _(m):
    m.write("/proc/mounts", "proc /proc proc rw 0 0\nshm /dev/shm tmpfs rw,nosuid,size=65536k 0 0\n")


@case("system.memory-limit")
def _(m):
    m.write("/sys/fs/cgroup/memory.max", "536870912\n")


def mac(m, version="10.13.6", build="17G65"):
    m.without_gpu()
    keys = (
        f"<key>ProductVersion</key><string>{version}</string><key>ProductBuildVersion</key>\n<string>{build}</string>"
    )
    m.write("/System/Library/CoreServices/SystemVersion.plist", f"<plist><dict>{keys}</dict></plist>")
    kext = "/Library/Extensions/NVDAStartupWeb.kext/Contents/Info.plist"
    m.write(kext, "<plist><dict><key>NVDARequiredOS</key>\n<string>17G65</string></dict></plist>")
    m.write(f"{CUDA}/lib/libcudart.10.2.dylib")
    m.write(f"{CUDA}/lib/libcudnn.7.dylib")
    m.environment["DYLD_LIBRARY_PATH"] = "/usr/local/cuda/lib"


@case("mac.no-cuda")
def _(m):
    mac(m, "14.5", "23F79")


@case("mac.webdriver-missing")
def _(m):
    mac(m)
    m.remove("/Library/Extensions/NVDAStartupWeb.kext")


@case("mac.webdriver-mismatch")
def _(m):
    mac(m, build="17G14042")


@case("mac.sip")
def _(m):
    mac(m)
    m.environment["SIP_STATUS"] = "enabled"


@case("mac.cudart-missing")
def _(m):
    mac(m)
    m.remove(f"{CUDA}/lib/libcudart.10.2.dylib")


@case("mac.library-path")
def _(m):
    mac(m)
    del m.environment["DYLD_LIBRARY_PATH"]


@case("mac.cudnn-version")
def _(m):
    mac(m)
    m.write(f"{CUDA}/lib/libcudnn.8.dylib")


@case("torch.missing")
def _(m):
    m.remove(PACKAGES)


@case("torch.cpu-only")
def _(m):
    m.without_gpu()
    cpu_only(m)
    CASES["torch.cpu-only"] = (CASES["torch.cpu-only"][0], ("gpu.none",))


@case("torch.driver-too-old")
def _(m):
    m.torch(
        {**TORCH, "cuda": "13.0", "available": False, "reason": "The NVIDIA driver is too old"}, "2.9.0+cu130", "'13.0'"
    )


@case("torch.architecture-missing")
def _(m):
    m.torch({**TORCH, "architectures": ["sm_70", "sm_80", "compute_100"]})


@case("torch.import-fails")
def _(m):
    m.torch({"failure": "ImportError: libcudart.so.12: cannot open shared object file"})


@case("torch.cuda-unavailable")
def _(m):
    m.torch(
        {
            **TORCH,
            "available": False,
            "reason": "CUDA unknown error - this may be due to an incorrectly set up environment",
        }
    )
