# Third-party libraries: the installed package first, otherwise a pinned download.
# docs/internals/dependencies.md says why each one is used.
include(FetchContent)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)

# Pinned downloads. FIND_PACKAGE_ARGS makes FetchContent_MakeAvailable look for an installed package first.
FetchContent_Declare(fmt GIT_REPOSITORY https://github.com/fmtlib/fmt.git
  GIT_TAG a33701196adfad74917046096bf5a2aa0ab0bb50 # 9.1.0
  FIND_PACKAGE_ARGS 9...<10)
FetchContent_Declare(hwy GIT_REPOSITORY https://github.com/google/highway.git
  GIT_TAG ba0900a4957b929390ab73827235557959234fea # 1.0.7
  FIND_PACKAGE_ARGS 1.0.3)
FetchContent_Declare(CLI11 GIT_REPOSITORY https://github.com/CLIUtils/CLI11.git
  GIT_TAG 70f8072f9dd2292fd0b9f9e5f58e279f60483ed3 # 2.1.2
  FIND_PACKAGE_ARGS 2.1)
FetchContent_Declare(nlohmann_json GIT_REPOSITORY https://github.com/nlohmann/json.git
  GIT_TAG bc889afb4c5bf1c0d8ee29ef35eaaf4c8bef8a5d # 3.11.2
  FIND_PACKAGE_ARGS 3.11)
FetchContent_Declare(GTest GIT_REPOSITORY https://github.com/google/googletest.git
  GIT_TAG 58d77fa8070e8cec2dc1ed015d66b454c8d78850 # 1.12.1
  FIND_PACKAGE_ARGS 1.12)
FetchContent_Declare(protozero GIT_REPOSITORY https://github.com/mapbox/protozero.git
  GIT_TAG f379578a3f7c8162aac0ac31c2696de09a5b5f93 # 1.7.1
  SOURCE_SUBDIR no-build)

FetchContent_Declare(zstd GIT_REPOSITORY https://github.com/facebook/zstd.git
  GIT_TAG 945f27758c0fd67b636103a38dbf050266c6b90a # 1.5.4
  SOURCE_SUBDIR build/cmake)

set(HWY_ENABLE_TESTS OFF CACHE INTERNAL "")
set(HWY_ENABLE_EXAMPLES OFF CACHE INTERNAL "")
set(HWY_ENABLE_CONTRIB OFF CACHE INTERNAL "")
set(HWY_ENABLE_INSTALL OFF CACHE INTERNAL "")
set(CLI11_BUILD_TESTS OFF CACHE INTERNAL "")
set(CLI11_BUILD_EXAMPLES OFF CACHE INTERNAL "")
set(INSTALL_GTEST OFF CACHE INTERNAL "")
FetchContent_MakeAvailable(fmt hwy CLI11 nlohmann_json)
if(STRATA_TESTS)
  FetchContent_MakeAvailable(GTest)
endif()

# Headers of a library that is installed shared, without its shared library.
function(strata_headers_of name library)
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE $<TARGET_PROPERTY:${library},INTERFACE_INCLUDE_DIRECTORIES>)
endfunction()

# protozero: headers only; Debian's package has no CMake files.
find_path(STRATA_PROTOZERO_HEADERS protozero/pbf_reader.hpp)
mark_as_advanced(STRATA_PROTOZERO_HEADERS)
add_library(strata_protozero INTERFACE)
if(STRATA_PROTOZERO_HEADERS)
  target_include_directories(strata_protozero SYSTEM INTERFACE ${STRATA_PROTOZERO_HEADERS})
else()
  FetchContent_MakeAvailable(protozero)
  target_include_directories(strata_protozero SYSTEM INTERFACE ${protozero_SOURCE_DIR}/include)
endif()

# fmt, compiled once.
if(TARGET fmt AND NOT fmt_FOUND)
  add_library(strata_fmt INTERFACE)
  target_link_libraries(strata_fmt INTERFACE fmt)
else()
  add_library(strata_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/support/fmt.cpp)
  strata_headers_of(strata_fmt_headers fmt::fmt-header-only)
  target_link_libraries(strata_fmt PUBLIC strata_fmt_headers)
endif()

# Highway: a static archive if there is one, otherwise compile its CPU detection.
find_library(STRATA_LIBHWY_STATIC libhwy.a)
mark_as_advanced(STRATA_LIBHWY_STATIC)
if(TARGET hwy AND NOT hwy_FOUND)
  add_library(strata_hwy INTERFACE)
  target_link_libraries(strata_hwy INTERFACE hwy)
else()
  strata_headers_of(strata_hwy_headers hwy::hwy)
  if(STRATA_LIBHWY_STATIC)
    add_library(strata_hwy INTERFACE)
    target_link_libraries(strata_hwy INTERFACE strata_hwy_headers ${STRATA_LIBHWY_STATIC})
  else()
    add_library(strata_hwy STATIC ${PROJECT_SOURCE_DIR}/cmake/support/highway.cpp)
    target_link_libraries(strata_hwy PUBLIC strata_hwy_headers)
  endif()
endif()

# zstd: the decoder as a static archive, since every start of a shared one costs time, and the program that packs kernels.
find_library(STRATA_LIBZSTD_STATIC libzstd.a)
find_path(STRATA_ZSTD_INCLUDE zstd.h)
find_program(STRATA_ZSTD zstd)
mark_as_advanced(STRATA_LIBZSTD_STATIC STRATA_ZSTD_INCLUDE STRATA_ZSTD)
add_library(strata_zstd INTERFACE)
if(STRATA_LIBZSTD_STATIC AND STRATA_ZSTD_INCLUDE AND STRATA_ZSTD)
  target_include_directories(strata_zstd SYSTEM INTERFACE ${STRATA_ZSTD_INCLUDE})
  target_link_libraries(strata_zstd INTERFACE ${STRATA_LIBZSTD_STATIC})
else()
  set(ZSTD_BUILD_SHARED OFF CACHE INTERNAL "")
  set(ZSTD_BUILD_PROGRAMS ON CACHE INTERNAL "")
  FetchContent_MakeAvailable(zstd)
  set(STRATA_ZSTD $<TARGET_FILE:zstd>)
  target_include_directories(strata_zstd SYSTEM INTERFACE ${zstd_SOURCE_DIR}/lib)
  target_link_libraries(strata_zstd INTERFACE libzstd_static)
endif()

# Only AVX2, AVX-512 (AVX3) and the baseline are compiled: off are AVX10 and the later AVX-512 variants (bits 3 to 7),
# SSE4 (11) and SSSE3 (12). Bits, since not every Highway version knows every name. Bits 15 and up belong to other
# architectures. With STRATA_SIMD=native only the better of AVX-512 (bit 8) and AVX2 (bit 9) that this machine has is left,
# beside the baseline, so the build runs on other machines too; a third of the time of the SIMD files is saved.
set(STRATA_SIMD "all" CACHE STRING "Instruction sets of the CPU kernels: all, or native: the best of this machine and the baseline")
set(disabled 0x18F8)
if(STRATA_SIMD STREQUAL "native" AND EXISTS /proc/cpuinfo)
  file(STRINGS /proc/cpuinfo flags REGEX "^flags" LIMIT_COUNT 1)
  if("${flags} " MATCHES " avx512f .*avx512bw .*avx512vl ")
    set(disabled 0x1AF8)
  elseif("${flags} " MATCHES " avx2 ")
    set(disabled 0x19F8)
  elseif(flags)
    set(disabled 0x1BF8)
  endif()
elseif(NOT STRATA_SIMD MATCHES "^(all|native)$")
  message(FATAL_ERROR "STRATA_SIMD is '${STRATA_SIMD}'; expected all or native")
endif()
get_target_property(kind strata_hwy TYPE)
if(kind STREQUAL "INTERFACE_LIBRARY")
  target_compile_definitions(strata_hwy INTERFACE "HWY_DISABLED_TARGETS=${disabled}LL")
else()
  target_compile_definitions(strata_hwy PUBLIC "HWY_DISABLED_TARGETS=${disabled}LL")
endif()

# Python: that of .venv, which tools/setup creates, unless another is given.
set(python_hint ${PROJECT_SOURCE_DIR}/.venv/bin/python)
if(NOT DEFINED Python_EXECUTABLE AND NOT DEFINED SKBUILD AND EXISTS ${python_hint})
  set(Python_EXECUTABLE ${python_hint} CACHE FILEPATH "The Python that builds and tests")
endif()
if(STRATA_PYTHON)
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
else()
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter)
endif()

# oneDNN: its PyPI wheels put the CMake package among the data files of the environment.
if(EXISTS ${PROJECT_SOURCE_DIR}/src/cpu/onednn)
  execute_process(OUTPUT_VARIABLE onednn_hint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
    COMMAND ${Python_EXECUTABLE} -c "import importlib.metadata as m, os
for f in m.files('onednn-devel-cpu-gomp'):
    if f.name == 'dnnl-config.cmake': print(os.path.dirname(os.path.realpath(f.locate())))")
  find_package(dnnl 3 CONFIG QUIET HINTS ${onednn_hint})
  if(NOT dnnl_FOUND)
    message(FATAL_ERROR "oneDNN 3 was not found. Run tools/setup, which puts it into .venv, or pass "
      "-Ddnnl_DIR=<folder of dnnl-config.cmake>.")
  endif()
  find_library(STRATA_LIBGOMP NAMES libgomp.so.1 REQUIRED)  # the run-time library that oneDNN was built with
  mark_as_advanced(STRATA_LIBGOMP)
endif()
