# cmake --install: the library, its modules, the command, the headers and find_package(Strata).
# With STRATA_WHEEL the prefix is the package folder site-packages/strata and only what Python needs is installed.
if(NOT TARGET strata)
  return()
endif()
include(CMakePackageConfigHelpers)
get_property(modules GLOBAL PROPERTY STRATA_MODULE_TARGETS)
if(STRATA_WHEEL)
  set(CMAKE_INSTALL_LIBDIR lib)
endif()

install(TARGETS strata EXPORT StrataTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
if(modules)
  install(TARGETS ${modules} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET strata_onednn)
  # The oneDNN of a Python environment is installed too; that of the system is not.
  get_target_property(dnnl_file DNNL::dnnl IMPORTED_LOCATION_RELEASE)
  if(dnnl_file AND NOT dnnl_file MATCHES "^/usr/(local/)?lib")
    install(FILES ${dnnl_file} DESTINATION ${CMAKE_INSTALL_LIBDIR} RENAME libdnnl.so.3)
    if(CMAKE_STRIP)  # its symbols for debuggers are a fifth of it
      install(CODE "execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-unneeded
        \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libdnnl.so.3\")")
    endif()
  endif()
endif()

# Headers: strata/strata.h, strata/torch.h and what they include, with all their includes beginning with "strata/". They are
# beside the library's folder in the build tree, a prefix and a wheel alike: load_inline compiles with them.
set(public_headers ${PROJECT_BINARY_DIR}/include)
add_custom_target(strata_headers ALL COMMENT "" VERBATIM
  COMMAND ${Python_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/install_headers.py ${public_headers} ${STRATA_INCLUDE_DIRS})
strata_needs_generated(strata_headers)
add_dependencies(strata strata_headers)
if(STRATA_WHEEL)
  install(DIRECTORY ${public_headers}/strata DESTINATION include)
  if(TARGET strata_python)
    install(TARGETS strata_python LIBRARY DESTINATION .)
  endif()
  if(STRATA_GENERATED_PYTHON)
    install(DIRECTORY ${STRATA_GEN}/python/strata/ DESTINATION .)
  endif()
  if(TARGET strata_command)
    # The command is the executable itself, not a Python script that starts it: `strata --version` takes milliseconds.
    # It finds the library from the bin folder of an environment, of the system (Debian), or of `pip install --target`.
    set(python python${Python_VERSION_MAJOR}.${Python_VERSION_MINOR})
    set_target_properties(strata_command PROPERTIES INSTALL_RPATH
      "$ORIGIN/../lib/${python}/site-packages/strata/lib;$ORIGIN/../lib/${python}/dist-packages/strata/lib;$ORIGIN/../strata/lib")
    install(TARGETS strata_command RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR})
  endif()
  return()
endif()

if(TARGET strata_command)
  set_target_properties(strata_command PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
  install(TARGETS strata_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(DIRECTORY ${public_headers}/strata DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Strata)
install(EXPORT StrataTargets NAMESPACE Strata:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/StrataConfig.cmake.in ${PROJECT_BINARY_DIR}/StrataConfig.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/StrataConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/StrataConfig.cmake ${PROJECT_BINARY_DIR}/StrataConfigVersion.cmake DESTINATION ${package_dir})
