# Device code as part of libstrata: src/cuda/**/*.cu is compiled by nvcc to PTX (for the virtual GPU and for GPUs that
# are not named below) and to machine code for STRATA_CUDA_ARCHS, and both are linked in. CMake's CUDA language is not
# enabled: all host code is compiled by the C++ compiler, and no CUDA library is linked.
find_program(STRATA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH /usr/local/cuda /opt/cuda PATH_SUFFIXES bin)
mark_as_advanced(STRATA_NVCC)
if(STRATA_NVCC)
  set(cuda_default ON)
else()
  set(cuda_default OFF)
endif()
option(STRATA_CUDA "Build the CUDA back end: devices cuda and vgpu" ${cuda_default})
set(STRATA_CUDA_ARCHS "native" CACHE STRING
  "Architectures with machine code of their own (90a, \"80;90a\"), native: those of this machine's GPUs, or all; others compile the PTX at run time")
if(STRATA_CUDA_ARCHS STREQUAL "all")
  set(cuda_archs 75 80 86 89 90a 100 120)
elseif(STRATA_CUDA_ARCHS STREQUAL "native")
  # Without a GPU there is none: half of the time of the kernels is spent on machine code.
  set(cuda_archs "")
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader OUTPUT_VARIABLE said RESULT_VARIABLE failed ERROR_QUIET)
  if(failed EQUAL 0)
    string(REGEX MATCHALL "[0-9]+\\.[0-9]+" cuda_archs "${said}")
    list(TRANSFORM cuda_archs REPLACE "\\." "")
    list(REMOVE_DUPLICATES cuda_archs)
    execute_process(COMMAND ${STRATA_NVCC} --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
    foreach(arch IN LISTS cuda_archs)
      if(known AND NOT known MATCHES "sm_${arch}\n")  # older or newer than this compiler knows
        list(REMOVE_ITEM cuda_archs ${arch})
      endif()
    endforeach()
    list(TRANSFORM cuda_archs REPLACE "^90$" "90a")
  endif()
else()
  set(cuda_archs ${STRATA_CUDA_ARCHS})
endif()
if(STRATA_CUDA AND NOT STRATA_NVCC)
  unset(STRATA_CUDA CACHE)  # so that the next try starts clean
  message(FATAL_ERROR "STRATA_CUDA=ON, but nvcc was not found. Install the CUDA toolkit (12.0 or newer) or name its "
    "compiler with -DSTRATA_NVCC=/path/to/nvcc; -DSTRATA_CUDA=OFF builds for the CPU alone.")
endif()

# sm_61 is compiled from the source and not from the PTX, which is for compute_75; CUDA 13 knows neither. `cuda_legacy` is
# "nvcc" where that one is old enough, or the command that uses the NVRTC of CUDA 12.
option(STRATA_CUDA_LEGACY "Machine code for sm_61 (Pascal) too; needs a compiler of CUDA 12" OFF)
set(cuda_legacy "")
set(cuda_legacy_includes "")
if(STRATA_CUDA AND STRATA_CUDA_LEGACY)
  execute_process(COMMAND ${STRATA_NVCC} --version OUTPUT_VARIABLE said)
  string(REGEX MATCH "release ([0-9]+)[.0-9]*" release "${said}")
  if(release AND CMAKE_MATCH_1 LESS 13)
    set(cuda_legacy nvcc)
  else()
    if(Python_EXECUTABLE)
      execute_process(COMMAND ${Python_EXECUTABLE} -c "import sysconfig; print(sysconfig.get_path('platlib'), end='')"
        OUTPUT_VARIABLE packages)
    endif()
    find_file(STRATA_NVRTC libnvrtc.so.12 HINTS ${packages}/nvidia/cuda_nvrtc/lib NO_DEFAULT_PATH)
    mark_as_advanced(STRATA_NVRTC)
    cmake_path(GET STRATA_NVRTC PARENT_PATH folder)
    find_path(STRATA_NVRTC_INCLUDE cuda_fp16.h HINTS ${folder}/../../cuda_runtime/include ${folder}/../include NO_DEFAULT_PATH)
    mark_as_advanced(STRATA_NVRTC_INCLUDE)
    if(NOT STRATA_NVRTC OR NOT STRATA_NVRTC_INCLUDE)
      unset(STRATA_CUDA_LEGACY CACHE)
      message(FATAL_ERROR "STRATA_CUDA_LEGACY=ON, but ${STRATA_NVCC} (${release}) does not compile for sm_61 any more. Install "
        "the compiler of CUDA 12 beside it (pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 in the environment of "
        "the build's Python; or name it with -DSTRATA_NVRTC=/path/to/libnvrtc.so.12 -DSTRATA_NVRTC_INCLUDE=/path/to/include), or "
        "use a whole toolkit of CUDA 12 with -DSTRATA_NVCC=/path/to/nvcc; -DSTRATA_CUDA_LEGACY=OFF builds without sm_61.")
    endif()
    set(cuda_legacy ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/nvrtc_cubin.py ${STRATA_NVRTC})
    set(cuda_legacy_includes ${STRATA_NVRTC_INCLUDE})
  endif()
endif()

set(STRATA_KERNELS_FROM "" CACHE PATH "The folder kernels/ of a build tree of the same sources and architectures, to embed what it compiled; other kernels are compiled here")

if(NOT STRATA_ZSTD)  # Dependencies.cmake builds it where there is none
  find_program(STRATA_ZSTD zstd REQUIRED)
  mark_as_advanced(STRATA_ZSTD)
endif()

# Writes the source whose object holds all kernels, and adds it to a layer. They lie there as two zstd frames per .cu file, the
# PTX and the machine code, unpacked when a kernel of the file is first launched: a tenth of their size.
function(strata_embed_kernels target)
  set(out ${PROJECT_BINARY_DIR}/kernels)
  file(MAKE_DIRECTORY ${out})
  set(data "")
  set(rows "")
  set(declarations "")
  set(images "")
  set(files "")
  set(level -19)
  if(CMAKE_BUILD_TYPE STREQUAL "Debug")
    set(level -1)
  endif()
  if(STRATA_CUDA)
    file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/*.cu)
  endif()
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    set(base ${out}/${name})
    if(STRATA_KERNELS_FROM AND EXISTS ${STRATA_KERNELS_FROM}/${name}.ptx)
      set(base ${STRATA_KERNELS_FROM}/${name})
    else()
      add_custom_command(OUTPUT ${base}.ptx ${base}.fatbin DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/CompileKernel.cmake
        DEPFILE ${base}.d
        COMMAND ${CMAKE_COMMAND} -DNVCC=${STRATA_NVCC} "-DLAUNCHER=${CMAKE_CXX_COMPILER_LAUNCHER}" -DSOURCE=${file}
          -DOUT=${base} "-DARCHS=${cuda_archs}"
          "-DINCLUDES=${STRATA_INCLUDE_DIRS}" -DLINES=$<CONFIG:Debug>
          "-DLEGACY=${cuda_legacy}" "-DLEGACY_INCLUDES=${cuda_legacy_includes}" -P ${PROJECT_SOURCE_DIR}/cmake/CompileKernel.cmake
        COMMENT "Compiling kernels of ${name}.cu" VERBATIM)
    endif()
    set(packed ${out}/${name}.ptx.zst ${out}/${name}.fatbin.zst)
    add_custom_command(OUTPUT ${packed} DEPENDS ${base}.ptx ${base}.fatbin VERBATIM
      COMMAND ${STRATA_ZSTD} -q -f ${level} --check ${base}.ptx -o ${out}/${name}.ptx.zst
      COMMAND ${STRATA_ZSTD} -q -f ${level} --check ${base}.fatbin -o ${out}/${name}.fatbin.zst)
    string(APPEND data "  \"strata_ptx_${name}: .incbin \\\"${out}/${name}.ptx.zst\\\"\\n\"\n"
      "  \"strata_fatbin_${name}: .incbin \\\"${out}/${name}.fatbin.zst\\\"\\nstrata_end_${name}:\\n\"\n")
    string(APPEND declarations "extern \"C\" const char strata_ptx_${name}[], strata_fatbin_${name}[], strata_end_${name}[];\n")
    string(APPEND rows "    {\"${name}\", {strata_ptx_${name}, strata_fatbin_${name}}, {strata_fatbin_${name}, strata_end_${name}}},\n")
    list(APPEND images ${packed})
  endforeach()
  string(REPLACE ";" " " archs "${cuda_archs}")
  if(STRATA_CUDA_LEGACY)
    string(PREPEND archs "61 ")
  endif()
  if(NOT STRATA_CUDA)
    set(archs "")
  endif()
  file(CONFIGURE OUTPUT ${out}/images.cpp @ONLY CONTENT "// Written by cmake/EmbedCuda.cmake.
#include \"cuda/runtime/images.h\"

__asm__(
  \".pushsection .rodata\\n\"
${data}  \".popsection\\n\");
${declarations}
namespace strata::cuda {

const std::vector<Image>& images() {
  static const std::vector<Image> list = {
${rows}  };
  return list;
}
const char* built_architectures() { return \"${archs}\"; }

}  // namespace strata::cuda
")
  set_source_files_properties(${out}/images.cpp PROPERTIES OBJECT_DEPENDS "${images}")
  target_sources(${target} PRIVATE ${out}/images.cpp)
  if(TARGET strata_generated)
    add_custom_target(strata_kernels DEPENDS ${images})
    add_dependencies(strata_kernels strata_generated)
    add_dependencies(${target} strata_kernels)
  endif()
endfunction()

# The headers of src/device as text, and those of src/cuda that need no header of the toolkit, so that kernels compiled
# at run time can include them.
function(strata_embed_device_headers target)
  set(out ${PROJECT_BINARY_DIR}/kernels/device_headers.cpp)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/src/device/*.h
    ${PROJECT_SOURCE_DIR}/src/device/*.inl ${PROJECT_SOURCE_DIR}/src/device/*.inc ${PROJECT_SOURCE_DIR}/src/cuda/custom/*.cuh
    ${PROJECT_SOURCE_DIR}/src/cuda/custom/*_params.h ${PROJECT_SOURCE_DIR}/src/cuda/custom/extension_accessor.h)
  list(APPEND files cuda/common/axes_params.h cuda/common/exp_sum.cuh cuda/common/fault.cuh cuda/common/index.cuh cuda/common/row_threads.cuh cuda/common/warp.cuh cuda/creation/dropout.cuh
    cuda/creation/philox_blocks.cuh cuda/nn/cross_entropy.cuh cuda/nn/cross_entropy_params.h cuda/nn/norm_rows.cuh cuda/nn/softmax_rows.cuh cuda/pointwise/fused.cuh cuda/pointwise/fused_rows.cuh
    cuda/reduce/folds.cuh cuda/runtime/fault_params.h cuda/linalg/gemm_hopper_params.h cuda/linalg/hopper.cuh cuda/linalg/hopper_pipeline.cuh cuda/linalg/mma.cuh
    cuda/linalg/tile_order.cuh cuda/linalg/wgmma_along_k.cuh)
  set(data "")
  set(rows "")
  set(declarations "")
  set(paths "")
  foreach(file IN LISTS files)
    string(MAKE_C_IDENTIFIER ${file} name)
    set(path ${PROJECT_SOURCE_DIR}/src/${file})
    string(APPEND data "  \"strata_header_${name}: .incbin \\\"${path}\\\"\\n.byte 0\\n\"\n")
    string(APPEND declarations "extern \"C\" const char strata_header_${name}[];\n")
    string(APPEND rows "    {\"${file}\", strata_header_${name}},\n")
    list(APPEND paths ${path})
  endforeach()
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT "// Written by cmake/EmbedCuda.cmake.
#include \"cuda/libs/device_headers.h\"

__asm__(
  \".pushsection .rodata\\n\"
${data}  \".popsection\\n\");
${declarations}
namespace strata::cuda {

const std::vector<DeviceHeader>& device_headers() {
  static const std::vector<DeviceHeader> list = {
${rows}  };
  return list;
}

}  // namespace strata::cuda
")
  set_source_files_properties(${out} PROPERTIES OBJECT_DEPENDS "${paths}")
  target_sources(${target} PRIVATE ${out})
endfunction()
