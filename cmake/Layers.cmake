# One folder of src/ is one layer and one target. Sources are found by globbing, so a new file needs no edit here.
set(STRATA_INCLUDE_DIRS ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/gen)

# strata_sources(<variable> <folder of src> [<subfolder to leave out>...])
function(strata_sources variable folder)
  file(GLOB_RECURSE files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cpp)
  foreach(skip IN LISTS ARGN)
    list(FILTER files EXCLUDE REGEX "/src/${folder}/${skip}/")
  endforeach()
  set(${variable} ${files} PARENT_SCOPE)
endfunction()

# strata_precompile(<target> <header>...): each header as <path>.
function(strata_precompile target)
  if(STRATA_PRECOMPILE AND ARGN)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# strata_compile_together(<target> [<count>]): in a unity build, so many files are one translation unit. Most of the time
# of a small file is spent in the headers.
function(strata_compile_together target)
  if(STRATA_UNITY AND ARGN)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${ARGN})
  endif()
endfunction()

# An object library strata_<layer> that becomes part of libstrata. A layer without sources has no target.
# Object libraries, not archives: records register themselves, and the linker would drop them from an archive.
function(strata_add_layer layer)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "" "TOGETHER" "SKIP;EXTRA;OPTIONS;PRECOMPILE")
  strata_sources(files ${layer} ${ARG_SKIP})
  list(APPEND files ${ARG_EXTRA})
  if(NOT files)
    return()
  endif()
  add_library(strata_${layer} OBJECT ${files})
  target_include_directories(strata_${layer} PRIVATE ${STRATA_INCLUDE_DIRS})
  target_compile_options(strata_${layer} PRIVATE ${ARG_OPTIONS})
  target_link_libraries(strata_${layer} PRIVATE
    strata_flags $<BUILD_INTERFACE:strata_fmt> strata_hwy nlohmann_json::nlohmann_json Threads::Threads ZLIB::ZLIB)
  strata_needs_generated(strata_${layer})
  strata_precompile(strata_${layer} ${ARG_PRECOMPILE})
  strata_compile_together(strata_${layer} ${ARG_TOGETHER})
  set_property(GLOBAL APPEND PROPERTY STRATA_LAYER_TARGETS strata_${layer})
endfunction()

# A shared library that libstrata opens at run time from its own folder, so that importing it costs nothing.
function(strata_add_module name folder)
  strata_sources(files ${folder})
  if(NOT files)
    return()
  endif()
  add_library(${name} MODULE ${files})
  set_target_properties(${name} PROPERTIES PREFIX "" INSTALL_RPATH "$ORIGIN")
  target_link_libraries(${name} PRIVATE strata ${ARGN})
  strata_needs_generated(${name})
  set_property(GLOBAL APPEND PROPERTY STRATA_MODULE_TARGETS ${name})
endfunction()
