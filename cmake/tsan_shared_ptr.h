/* Put before every uninstrumented source of ours under TSan: libstdc++'s own places for telling a
   race detector how its reference counts order what their holders do. */
#pragma once

#include <sanitizer/tsan_interface.h>

#define _GLIBCXX_SYNCHRONIZATION_HAPPENS_BEFORE(count) __tsan_release((void*)(count))
#define _GLIBCXX_SYNCHRONIZATION_HAPPENS_AFTER(count) __tsan_acquire((void*)(count))
