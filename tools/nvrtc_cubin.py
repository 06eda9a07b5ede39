#!/usr/bin/env python3
"""Compiles a .cu file to machine code with NVRTC: nvrtc_cubin.py LIBNVRTC ARCH SOURCE OUT -IFOLDER...

For architectures that the installed nvcc no longer supports: PyPI has the NVRTC of CUDA 12 (nvidia-cuda-nvrtc-cu12), but no nvcc.
Device code only, as in src/cuda/**/*.cu.
"""

import ctypes
import pathlib
import sys

# C headers that the kernels include; NVRTC has the device functions built in and no such headers.
HEADERS = {
    "stdint.h": """#pragma once
typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned uint32_t; typedef unsigned long uint64_t;
typedef unsigned long uintptr_t; typedef long intptr_t;
#define INT8_MIN (-128)
#define INT8_MAX 127
#define UINT8_MAX 255
#define INT32_MAX 2147483647
#define INT32_MIN (-INT32_MAX - 1)
#define UINT32_MAX 4294967295u
#define INT64_MAX 9223372036854775807l
#define INT64_MIN (-INT64_MAX - 1)
#define UINT64_MAX 18446744073709551615ul
""",
    "math.h": """#pragma once
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#define NAN __builtin_bit_cast(float, 0x7fffffff)
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000)
""",
    "string.h": "#pragma once\n",
}


def compile_to_cubin(library, arch, source, options):
    nvrtc = ctypes.CDLL(library)
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(name, *arguments):
        status = getattr(nvrtc, name)(*arguments)
        if status:
            raise RuntimeError(f"{name}: {nvrtc.nvrtcGetErrorString(status).decode()}")

    def text(size, get):
        count = ctypes.c_size_t()
        call(size, program, ctypes.byref(count))
        data = ctypes.create_string_buffer(count.value)
        call(get, program, data)
        return data.raw

    def strings(values):
        return (ctypes.c_char_p * len(values))(*(v.encode() for v in values))

    program = ctypes.c_void_p()
    call(
        "nvrtcCreateProgram",
        ctypes.byref(program),
        source.read_bytes(),
        str(source).encode(),
        len(HEADERS),
        strings(list(HEADERS.values())),
        strings(list(HEADERS)),
    )
    # As nvcc does: <math.h> is always there, and lambdas in kernels are device code.
    flags = [f"--gpu-architecture=sm_{arch}", "--std=c++20", "--pre-include=math.h", "-default-device", *options]
    try:
        call("nvrtcCompileProgram", program, len(flags), strings(flags))
    except RuntimeError as e:
        log = text("nvrtcGetProgramLogSize", "nvrtcGetProgramLog").rstrip(b"\0").decode()
        raise RuntimeError(f"{source}: {e}\n{log}") from None
    return text("nvrtcGetCUBINSize", "nvrtcGetCUBIN")


if __name__ == "__main__":
    library, arch, source, out, *options = sys.argv[1:]
    try:
        cubin = compile_to_cubin(library, arch, pathlib.Path(source), options)
    except (OSError, RuntimeError) as e:
        sys.exit(f"nvrtc_cubin: {e}")
    pathlib.Path(out).write_bytes(cubin)
