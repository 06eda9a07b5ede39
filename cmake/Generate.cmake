# Files generated from the op definitions: tools/gen_ops.py reads src/ops/**/*.cpp and writes a tree of files.
#   gen/strata/*            headers, found as "strata/ops.h"
#   gen/nn/*.cpp            from src/nn/modules/*.modules, src/nn/optim/*.optimizers and *.schedulers; compiled into nn
#   gen/tests/*             the samples of modules as C++, for tests/parity
#   gen/functors/*.inc      the functors of each header in src/device/functors, by tools/gen_functors.py
#   gen/python/strata/*     part of the Python package: type stubs, by tools/gen_stubs.py and gen_loose_stubs.py
# The generator writes into a scratch folder and only files that differ are copied, so that an edit which leaves a
# header unchanged rebuilds only the edited file. It runs once while configuring, which gives Ninja the names of its
# outputs and lets editors and clang-tidy work before the first build.
set(STRATA_GEN ${PROJECT_BINARY_DIR}/gen)
set(STRATA_GENERATED_CPP)
set(STRATA_GENERATED_PYTHON)
file(MAKE_DIRECTORY ${STRATA_GEN})
file(GLOB_RECURSE op_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/*.cpp)
file(GLOB functor_headers CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/device/functors/*.h)
file(GLOB module_records CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/nn/modules/*.modules
  ${PROJECT_SOURCE_DIR}/src/nn/optim/*.optimizers ${PROJECT_SOURCE_DIR}/src/nn/optim/*.schedulers)
list(APPEND op_sources ${functor_headers} ${module_records})
set(generator ${PROJECT_SOURCE_DIR}/tools/gen_ops.py)
file(GLOB generator_inputs CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/gen_*.py ${PROJECT_SOURCE_DIR}/tools/signatures.py
  ${PROJECT_SOURCE_DIR}/tools/module_records.py ${PROJECT_SOURCE_DIR}/tools/stubs/*.pyi)
file(GLOB_RECURSE package_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/python/strata/*.py ${PROJECT_SOURCE_DIR}/python/strata/*.pyi)
list(APPEND generator_inputs ${package_sources})
list(FILTER generator_inputs EXCLUDE REGEX "/gen_docs.py$")

if(op_sources AND EXISTS ${generator})
  set(scratch ${PROJECT_BINARY_DIR}/gen.new)
  set(run_generator ${CMAKE_COMMAND} -DPYTHON=${Python_EXECUTABLE} -DGENERATOR=${generator} -DSCRATCH=${scratch}
    -DOUT=${STRATA_GEN} -P ${PROJECT_SOURCE_DIR}/cmake/RunGenerator.cmake -- ${op_sources})
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${generator})
  execute_process(COMMAND ${run_generator} COMMAND_ERROR_IS_FATAL ANY)

  file(GLOB_RECURSE outputs ${STRATA_GEN}/*)
  set(STRATA_GENERATED_CPP ${outputs})
  list(FILTER STRATA_GENERATED_CPP INCLUDE REGEX "/gen/nn/.*\\.cpp$")
  set(STRATA_GENERATED_PYTHON ${outputs})
  list(FILTER STRATA_GENERATED_PYTHON INCLUDE REGEX "/gen/python/strata/")
  add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/gen.stamp BYPRODUCTS ${outputs}
    COMMAND ${run_generator}
    COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/gen.stamp
    DEPENDS ${generator_inputs} ${PROJECT_SOURCE_DIR}/cmake/RunGenerator.cmake ${op_sources}
    COMMENT "Deriving strata/ops.h from the op records" VERBATIM)
  add_custom_target(strata_generated DEPENDS ${PROJECT_BINARY_DIR}/gen.stamp)
endif()

function(strata_needs_generated target)
  if(TARGET strata_generated)
    add_dependencies(${target} strata_generated)
  endif()
endfunction()

# The pages of docs/usage for `strata help`, as rows of a table: {"tour", R"(...)"}.
function(strata_embed_help target)
  file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/usage/*.md)
  set(out ${STRATA_GEN}/help/strata/help_pages.inc)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DPAGES=${pages}" -DOUT=${out} -P ${PROJECT_SOURCE_DIR}/cmake/EmbedHelp.cmake
    DEPENDS ${pages} ${PROJECT_SOURCE_DIR}/cmake/EmbedHelp.cmake COMMENT "Embedding docs/usage" VERBATIM)
  target_sources(${target} PRIVATE ${out})
  target_include_directories(${target} PRIVATE ${STRATA_GEN}/help)
endfunction()
