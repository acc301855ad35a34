#pragma once

#include <cstdint>

// The controls of the fake CUDA driver (libcuda.so.1 in the build tree), for tests that link to
// it. Another process is told the same by its environment, which these go before.
//
//   FAKECUDA_DEVICES   how many GPUs there are (1)
//   FAKECUDA_MIG       1: each is a part of a GPU, with a UUID of its own
//   FAKECUDA_VERSION   what the driver says it is, and offers the calls of (13000)
//   FAKECUDA_MEMORY    bytes of each (268435456)
//   FAKECUDA_DIR       where their memory lies (/dev/shm/fakecuda-<uid>), for all processes
//   FAKECUDA_PID       what the driver takes this process's pid for (the pid)
//   FAKECUDA_REUSE_HANDLE  1: memory at an address that was used before gets the handle again
//   FAKECUDA_DELAY_US  what each operation on a stream takes (0)
//   FAKECUDA_FAIL      call:n:result,... : call n (from 1) of that name has that result, and does
//                      nothing; n = 0: every one; "hang" for a result: it never returns
//   FAKECUDA_WITHOUT   call,...: lookups find no such call
//   FAKECUDA_CAPTURING 1: as if another thread were capturing a graph in the global mode, which
//                      waits for events and the opening of memory are refused for
//   FAKECUDA_LOG       a file that gets a line a call: its name and its result
//   CUDA_VISIBLE_DEVICES   as the real one: ordinals or UUIDs, up to the first that is unknown
extern "C" {

// Sets one of the above for this process; null gives it back to the environment.
void fakecuda_set(const char* name, const char* value);

// How often a call of that base name ("cuMemAlloc") was made, refused or not.
uint64_t fakecuda_calls(const char* call);

// How many there are of "context", "allocation", "import", "host", "stream", "event", "module".
uint64_t fakecuda_live(const char* kind);

// Operations on streams wait from now on, until they are released.
void fakecuda_hold();
void fakecuda_release();

// As if the process had just begun: no settings, no counts, contexts sound again. Requires that
// nothing is live.
void fakecuda_reset();

}  // extern "C"
