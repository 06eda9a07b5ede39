# The Python package in the build tree: PYTHONPATH=<build>/python. The .py files are links into the source tree, so an
# edit needs no build.
set(STRATA_PYTHON_DIR ${PROJECT_BINARY_DIR}/python)
file(GLOB_RECURSE package_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/python
  ${PROJECT_SOURCE_DIR}/python/strata/*.py ${PROJECT_SOURCE_DIR}/python/strata/*.pyi ${PROJECT_SOURCE_DIR}/python/strata/py.typed)
file(MAKE_DIRECTORY ${STRATA_PYTHON_DIR}/strata)
file(GLOB_RECURSE old_links ${STRATA_PYTHON_DIR}/strata/*.py ${STRATA_PYTHON_DIR}/strata/*.pyi)
foreach(link IN LISTS old_links)
  if(NOT EXISTS ${link})  # its target is gone
    file(REMOVE ${link})
  endif()
endforeach()
function(strata_link_into_package from name)
  get_filename_component(folder ${STRATA_PYTHON_DIR}/${name} DIRECTORY)
  file(MAKE_DIRECTORY ${folder})
  file(CREATE_LINK ${from} ${STRATA_PYTHON_DIR}/${name} SYMBOLIC)
endfunction()
foreach(name IN LISTS package_files)
  strata_link_into_package(${PROJECT_SOURCE_DIR}/python/${name} ${name})
endforeach()
foreach(file IN LISTS STRATA_GENERATED_PYTHON)
  file(RELATIVE_PATH name ${STRATA_GEN}/python ${file})
  strata_link_into_package(${file} ${name})
endforeach()

strata_sources(bindings python)
if(bindings)
  Python_add_library(strata_python MODULE WITH_SOABI ${bindings})
  set_target_properties(strata_python PROPERTIES OUTPUT_NAME _C LIBRARY_OUTPUT_DIRECTORY ${STRATA_PYTHON_DIR}/strata
    INSTALL_RPATH "$ORIGIN/lib")
  target_compile_definitions(strata_python PRIVATE STRATA_VERSION="${PROJECT_VERSION}")
  target_link_libraries(strata_python PRIVATE strata)
  strata_needs_generated(strata_python)
endif()
