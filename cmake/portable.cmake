# Programs that run where the libraries that they were built with are not: included after abseil was
# found. A library that the distribution has a static form of is linked statically; any other is
# looked for beside the program first (tests/gpu/check.sh puts it there), also where a library needs
# it. glibc stays: it must be as new there as here.

set(OPENSSL_USE_STATIC_LIBS ON)
set(CMAKE_BUILD_RPATH "$ORIGIN")
string(APPEND CMAKE_EXE_LINKER_FLAGS
  " -static-libstdc++ -static-libgcc -Wl,--as-needed -Wl,--disable-new-dtags")

# Debian's abseil says to link the shared form, and has the static one beside it.
get_property(kvpool_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${kvpool_imported})
  get_target_property(type ${target} TYPE)
  if(NOT target MATCHES "^absl::" OR NOT type STREQUAL "SHARED_LIBRARY")
    continue()
  endif()
  get_target_property(configurations ${target} IMPORTED_CONFIGURATIONS)
  foreach(configuration ${configurations})
    get_target_property(shared ${target} IMPORTED_LOCATION_${configuration})
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" static "${shared}")
    if(EXISTS "${static}")
      set_target_properties(${target} PROPERTIES IMPORTED_LOCATION_${configuration} "${static}")
    endif()
  endforeach()
endforeach()
