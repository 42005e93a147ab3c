# cmake --install: the library, the public headers, the program, and what other builds find them by.
include(CMakePackageConfigHelpers)

set(TUTTI_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/Tutti")

install(TARGETS tutti tutti_runtime EXPORT TuttiTargets LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
# In a folder of its own: only who asks for it (tutti run, LD_LIBRARY_PATH) may find this libnccl.
install(TARGETS tutti_nccl LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}/tutti/nccl")
install(EXPORT TuttiTargets NAMESPACE Tutti:: DESTINATION "${TUTTI_PACKAGE_DIR}")
install(DIRECTORY include/tutti DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
        FILES_MATCHING PATTERN "*.h")
install(FILES LICENSE THIRD_PARTY_NOTICES DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(TARGETS tutti_program RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")

configure_package_config_file(cmake/TuttiConfig.cmake.in generated/TuttiConfig.cmake
  INSTALL_DESTINATION "${TUTTI_PACKAGE_DIR}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/generated/TuttiConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/generated/TuttiConfig.cmake"
              "${PROJECT_BINARY_DIR}/generated/TuttiConfigVersion.cmake"
        DESTINATION "${TUTTI_PACKAGE_DIR}")

file(RELATIVE_PATH TUTTI_PREFIX_FROM_PC
  "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file(cmake/tutti.pc.in generated/tutti.pc @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/generated/tutti.pc"
        DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
