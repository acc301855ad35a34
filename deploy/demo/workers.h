#pragma once

#include <string>

#include "absl/status/status.h"

namespace kvpool::demo {

// What a worker is told on its command line.
struct WorkerOptions {
  std::string socket;      // A worker's listener of the daemon.
  std::string pool;        // A pool of ToyModel's geometry in bf16.
  std::string text;        // The prompt; a token a byte.
  bool flip_byte = false;  // Prefill spoils one byte of what it wrote.
};

// The demo's workers, each run as a process of its own. What they tell the driver are lines
// "NAME VALUE". On a GPU, for which they have no kernels, they copy what they compute with to the
// host, and back where they change it.

// Computes K and V of the text's whole blocks, writes them through its mapping and publishes them
// under the text: "published N", "bytes N". Then closes its session: "fetched N", the bytes copied
// from a GPU, "calls N" and "copied N".
absl::Status RunPrefill(const WorkerOptions& options);

// Acquires the text's blocks, all of which must be found, and one more: "reused N", "new N". Runs
// attention over them in place and over K and V computed apart: "heads N", "error X". Then closes
// its session: "fetched N", "calls N" and "copied N". INTERNAL where the two differ by more than
// 1e-3, relative.
absl::Status RunDecode(const WorkerOptions& options);

// Takes blocks, prints "writing N", N of them, and writes to them until it is killed.
absl::Status RunVictim(const WorkerOptions& options);

}  // namespace kvpool::demo
