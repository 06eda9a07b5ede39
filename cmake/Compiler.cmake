# The language, the flags of all Strata targets (through strata_flags), ccache and the linker.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 12)
  message(FATAL_ERROR "Strata needs g++ 12 or newer; ${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_VERSION}. "
    "Name a newer one with -DCMAKE_CXX_COMPILER=...")
endif()

# Without this, CMake adds its own -O3 for Release.
if(NOT STRATA_KEEP_CMAKE_FLAGS)
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g0 -DNDEBUG")
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")  # -O0 makes SIMD code a hundred times slower
endif()

add_library(strata_flags INTERFACE)
target_compile_options(strata_flags INTERFACE -Wall -Wextra
  -fno-math-errno               # errno is not read after sqrt; with it the call cannot be vectorized
  -fno-semantic-interposition)  # our exported functions may be inlined into each other
target_link_options(strata_flags INTERFACE -Wl,--as-needed)
if(STRATA_WERROR)
  target_compile_options(strata_flags INTERFACE -Werror)
endif()
if(STRATA_SANITIZE)
  # For everything, including third-party sources: a sanitizer must instrument the whole program.
  add_compile_options(-fsanitize=${STRATA_SANITIZE} -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${STRATA_SANITIZE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fno-var-tracking)  # g++ 13 would need minutes for the SIMD loops; reports have lines without it
  endif()
endif()

# ccache with paths relative to the checkout: all build trees, clones and work trees share one cache. It caches files that
# use a precompiled header only if it may ignore macros of the header that they do not use, and time macros.
find_program(STRATA_CCACHE ccache)
find_program(STRATA_ENV env)
mark_as_advanced(STRATA_CCACHE STRATA_ENV)
if(STRATA_CCACHE AND STRATA_ENV AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${STRATA_ENV} CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
    CCACHE_SLOPPINESS=pch_defines,time_macros ${PROJECT_SOURCE_DIR}/cmake/support/compile ${STRATA_CCACHE})
else()
  target_compile_options(strata_flags INTERFACE -fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=)  # ccache does it by itself
endif()

# Precompiled headers save a fifth of a build from nothing.
option(STRATA_PRECOMPILE "Precompile the headers that most files of a layer include" ON)

# A third of a build from nothing is spent reading the same headers. A debug build stays in files: they are rebuilt often.
set(unity OFF)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(unity ON)
endif()
option(STRATA_UNITY "Compile several files of a layer as one" ${unity})

# Use the fastest available linker. Sanitizers keep the default one.
if(NOT STRATA_SANITIZE)
  include(CheckLinkerFlag)
  foreach(linker mold lld)
    check_linker_flag(CXX -fuse-ld=${linker} STRATA_HAS_${linker})
    if(STRATA_HAS_${linker})
      target_link_options(strata_flags INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()
