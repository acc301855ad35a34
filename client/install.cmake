# Installs the client library as a package: find_package(kvpool), then kvpool::client.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# All that a program that links the client links.
set(kvpool_installed
  kvpool_client kvpool_client_rpc kvpool_client_runtime kvpool_proto_convert kvpool_proto
  kvpool_device kvpool_layout kvpool_core_base)
# kvpool_gpus, which is another name for the backend where there is one.
if(KVPOOL_CUDA)
  list(APPEND kvpool_installed kvpool_cuda)
else()
  list(APPEND kvpool_installed kvpool_gpus)
endif()
foreach(target IN LISTS kvpool_installed)
  string(REGEX REPLACE "^kvpool_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
install(TARGETS ${kvpool_installed} EXPORT kvpool
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT client)
install(EXPORT kvpool NAMESPACE kvpool:: FILE kvpoolTargets.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvpool COMPONENT client)

write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/kvpoolConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_SOURCE_DIR}/kvpoolConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/kvpoolConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/kvpool COMPONENT client)

# The public headers, as "kvpool/client/client.h": in the tree they include each other from its
# root, which would be too common a place in another project.
set(kvpool_public_headers
  client/block_lease.h client/call_options.h client/cancellation.h client/client.h
  client/kept_session.h client/mapped_session.h client/mapping.h client/options.h client/owned_fd.h
  client/prefix.h client/runtime.h client/session.h client/side_tensor.h client/transport.h
  client/visible_gpus.h
  core/clock.h core/error.h core/ids.h core/mutex.h
  core/device/mapped_region.h
  core/layout/dtype.h core/layout/pool_layout.h core/layout/pool_spec.h)
install(CODE "
set(headers \"${kvpool_public_headers}\")
set(source_dir \"${PROJECT_SOURCE_DIR}\")
set(work_dir \"${CMAKE_CURRENT_BINARY_DIR}/include\")
set(destination \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}\")"
  COMPONENT client)
install(SCRIPT ${CMAKE_CURRENT_SOURCE_DIR}/install_headers.cmake COMPONENT client)
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto/kvpool/v1
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/kvpool COMPONENT client
  FILES_MATCHING PATTERN "*.pb.h")

# For other languages, and what the headers and each other name.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/proto/kvpool/v1
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kvpool/proto/kvpool COMPONENT client
  FILES_MATCHING PATTERN "*.proto")
install(FILES ${PROJECT_SOURCE_DIR}/proto/prefix_key_vectors.json
  DESTINATION ${CMAKE_INSTALL_DATADIR}/kvpool/proto COMPONENT client)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/CHANGELOG.md
              ${PROJECT_SOURCE_DIR}/docs/prefix-keys.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/kvpool COMPONENT client)

target_include_directories(kvpool_client INTERFACE
  $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
