# Device code as part of libstrata: src/cuda/kernels/*.cu is compiled by nvcc to PTX (for the virtual GPU and for cards that
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
set(STRATA_CUDA_ARCHS "90a" CACHE STRING "Architectures with machine code of their own, or all; others compile the PTX at run time")
if(STRATA_CUDA_ARCHS STREQUAL "all")
  set(cuda_archs 75 80 86 89 90a 100 120)
else()
  set(cuda_archs ${STRATA_CUDA_ARCHS})
endif()
if(STRATA_CUDA AND NOT STRATA_NVCC)
  unset(STRATA_CUDA CACHE)  # so that the next try starts clean
  message(FATAL_ERROR "STRATA_CUDA=ON, but nvcc was not found. Install the CUDA toolkit (12.0 or newer) or name its "
    "compiler with -DSTRATA_NVCC=/path/to/nvcc; -DSTRATA_CUDA=OFF builds for the CPU alone.")
endif()

# Writes the source whose object holds all kernels, and adds it to a layer.
function(strata_embed_kernels target)
  set(out ${PROJECT_BINARY_DIR}/kernels)
  file(MAKE_DIRECTORY ${out})
  set(data "")
  set(rows "")
  set(declarations "")
  set(images "")
  set(files "")
  if(STRATA_CUDA)
    file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/cuda/kernels/*.cu)
  endif()
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    set(base ${out}/${name})
    add_custom_command(OUTPUT ${base}.ptx ${base}.fatbin DEPENDS ${file} ${PROJECT_SOURCE_DIR}/cmake/CompileKernel.cmake
      DEPFILE ${base}.d
      COMMAND ${CMAKE_COMMAND} -DNVCC=${STRATA_NVCC} -DSOURCE=${file} -DOUT=${base} "-DARCHS=${cuda_archs}"
        "-DINCLUDES=${STRATA_INCLUDE_DIRS}" -DLINES=$<CONFIG:Debug> -P ${PROJECT_SOURCE_DIR}/cmake/CompileKernel.cmake
      COMMENT "Compiling kernels of ${name}.cu" VERBATIM)
    string(APPEND data "  \".balign 64\\nstrata_ptx_${name}: .incbin \\\"${base}.ptx\\\"\\n.byte 0\\n\"\n"
      "  \".balign 64\\nstrata_fatbin_${name}: .incbin \\\"${base}.fatbin\\\"\\nstrata_end_${name}:\\n\"\n")
    string(APPEND declarations "extern \"C\" const char strata_ptx_${name}[], strata_fatbin_${name}[], strata_end_${name}[];\n")
    string(APPEND rows "    {\"${name}\", strata_ptx_${name}, strata_fatbin_${name}, strata_end_${name}},\n")
    list(APPEND images ${base}.ptx ${base}.fatbin)
  endforeach()
  string(REPLACE ";" " " archs "${cuda_archs}")
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
