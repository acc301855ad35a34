# What every target of ours is compiled with. Linked PRIVATE, so nothing of it reaches users.
#
#   kvpool_options      warnings, include root, sanitizer: our own code
#   kvpool_rpc_options  the same, for generated code and gRPC reactors: they are built without
#                       TSan and without UBSan (see docs/decisions/sanitizers.md)

find_program(KVPOOL_CCACHE ccache)
if(KVPOOL_CCACHE)
  # Base directory and no hashed cwd: a fresh clone elsewhere reuses the cache.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${KVPOOL_CCACHE})
endif()

add_library(kvpool_includes INTERFACE)
target_include_directories(kvpool_includes INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)

add_library(kvpool_warnings INTERFACE)
target_compile_options(kvpool_warnings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor
  -Woverloaded-virtual -Wimplicit-fallthrough
  $<$<CXX_COMPILER_ID:Clang>:-Wthread-safety>)

add_library(kvpool_options INTERFACE)
add_library(kvpool_rpc_options INTERFACE)
target_link_libraries(kvpool_options INTERFACE kvpool_includes kvpool_warnings)
target_link_libraries(kvpool_rpc_options INTERFACE kvpool_includes)

if(KVPOOL_SANITIZER STREQUAL "asan")
  set(kvpool_ubsan_flags -fsanitize=undefined -fno-sanitize-recover=undefined)
  target_compile_options(kvpool_options INTERFACE
    -fsanitize=address -fno-omit-frame-pointer ${kvpool_ubsan_flags})
  target_compile_options(kvpool_rpc_options INTERFACE
    -fsanitize=address -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(KVPOOL_SANITIZER STREQUAL "tsan")
  # Every library is SHARED, so that there is one copy of everything, and no function that two
  # libraries share (of std, gRPC, abseil) is instrumented for one and not for the other: ours
  # export nothing but kvpool's own, the uninstrumented ones use their own functions first.
  set(BUILD_SHARED_LIBS ON)
  target_compile_options(kvpool_options INTERFACE
    -fsanitize=thread -fno-omit-frame-pointer -fvisibility-inlines-hidden)
  set(kvpool_exports ${CMAKE_CURRENT_LIST_DIR}/tsan_exports.map)
  target_link_options(kvpool_options INTERFACE
    -fsanitize=thread -Wl,--version-script=${kvpool_exports})
  set_target_properties(kvpool_options PROPERTIES INTERFACE_LINK_DEPENDS ${kvpool_exports})
  target_compile_definitions(kvpool_rpc_options INTERFACE KVPOOL_TSAN)
  target_compile_options(kvpool_rpc_options INTERFACE
    "SHELL:-include ${CMAKE_CURRENT_LIST_DIR}/tsan_shared_ptr.h")
  # An executable without instrumentation carries the runtime for the libraries that have it.
  target_link_options(kvpool_rpc_options INTERFACE -fsanitize=thread -Wl,-Bsymbolic-functions)
elseif(NOT KVPOOL_SANITIZER STREQUAL "")
  message(FATAL_ERROR "KVPOOL_SANITIZER is '${KVPOOL_SANITIZER}': asan, tsan or nothing")
endif()

# Sources which give their own names to things that another of their target names so too: they are
# compiled by themselves where sources are joined (CMAKE_UNITY_BUILD, as the sanitizers' presets do).
function(kvpool_compile_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

if(KVPOOL_CLANG_TIDY)
  find_program(KVPOOL_CLANG_TIDY_PROGRAM NAMES clang-tidy REQUIRED)
endif()

# Turns clang-tidy on for one target: core, server and client call it, tests do not.
function(kvpool_lint target)
  if(KVPOOL_CLANG_TIDY)
    set_target_properties(${target} PROPERTIES CXX_CLANG_TIDY
      "${PROJECT_SOURCE_DIR}/cmake/tidy_once.sh;${PROJECT_SOURCE_DIR}/.clang-tidy;${KVPOOL_CLANG_TIDY_PROGRAM};--quiet")
  endif()
endfunction()
