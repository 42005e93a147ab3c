# The package for Python: tutti._core, the binding, beside the package's own files (docs/python.md).
#
# TUTTI_PYTHON names a Python that has nanobind and nanobind-backend; without one nothing is built, and
# the package's tests are skipped. pip sets it by itself, through scikit-build-core.
if(NOT SKBUILD)
  set(TUTTI_PYTHON "" CACHE FILEPATH "A Python with nanobind, for which the package is built")
  if(NOT TUTTI_PYTHON)
    return()
  endif()
  set(Python_EXECUTABLE "${TUTTI_PYTHON}")
endif()
find_package(Python 3.10 COMPONENTS Interpreter Development.Module)
if(NOT Python_Development.Module_FOUND)
  message(FATAL_ERROR "The headers of ${Python_EXECUTABLE} are missing, with which the package for Python "
                      "is built: tools/install-packages installs those of Debian's Python")
endif()
set(TUTTI_PYTHON "${Python_EXECUTABLE}")

execute_process(COMMAND "${TUTTI_PYTHON}" -m nanobind --cmake_dir
                OUTPUT_VARIABLE nanobind_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE
                RESULT_VARIABLE TUTTI_NANOBIND_MISSING ERROR_QUIET)
if(TUTTI_NANOBIND_MISSING)
  message(FATAL_ERROR "${TUTTI_PYTHON} has no nanobind: run '${TUTTI_PYTHON} -m pip install nanobind "
                      "nanobind-backend numpy', or leave TUTTI_PYTHON out")
endif()
find_package(nanobind CONFIG REQUIRED)

set(TUTTI_PYTHON_FOLDER "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/python/tutti")
tutti_glob(TUTTI_BINDING_SOURCES FOLDERS python/binding MATCHING "\\.cc$")
# Split mode: one module serves every CPython from 3.10 on; what differs between them is the package
# nanobind-backend.
nanobind_add_module(tutti_python BACKEND_MODULE nanobind_backend NB_SUPPRESS_WARNINGS NOMINSIZE
                    ${TUTTI_BINDING_SOURCES})
# The interpreter has Python's own functions; this stands behind the -z,defs of tutti_flags.
target_link_libraries(tutti_python PRIVATE tutti_flags tutti_runtime -Wl,-z,undefs)
target_include_directories(tutti_python PRIVATE "${PROJECT_SOURCE_DIR}/python/binding")
set_target_properties(tutti_python PROPERTIES
  OUTPUT_NAME _core LIBRARY_OUTPUT_DIRECTORY "${TUTTI_PYTHON_FOLDER}"
  BUILD_RPATH "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}" INSTALL_RPATH "$ORIGIN/lib")

# In a build the package is the checkout's files beside the module.
file(MAKE_DIRECTORY "${TUTTI_PYTHON_FOLDER}")
file(GLOB TUTTI_PACKAGE_ENTRIES RELATIVE "${PROJECT_SOURCE_DIR}/python/tutti" CONFIGURE_DEPENDS
     "${PROJECT_SOURCE_DIR}/python/tutti/*")
foreach(entry IN LISTS TUTTI_PACKAGE_ENTRIES)
  if(NOT entry STREQUAL "__pycache__")
    file(CREATE_LINK "${PROJECT_SOURCE_DIR}/python/tutti/${entry}" "${TUTTI_PYTHON_FOLDER}/${entry}" SYMBOLIC)
  endif()
endforeach()
file(CONFIGURE OUTPUT "${CMAKE_LIBRARY_OUTPUT_DIRECTORY}/python/built_for" CONTENT "${TUTTI_PYTHON}\n")
nanobind_add_stub(tutti_python_stub MODULE _core PYTHON_PATH "${TUTTI_PYTHON_FOLDER}"
                  OUTPUT "${TUTTI_PYTHON_FOLDER}/_core.pyi" DEPENDS tutti_python)

if(SKBUILD)
  include(TuttiWheel)
endif()
