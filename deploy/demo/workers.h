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

// The demo's workers, each run as a process of its own. They speak with the driver by lines:
// blocks are handed over as "block ID GENERATION", figures as "NAME VALUE".

// Computes K and V of the text's whole blocks, writes them through its mapping, prints the
// blocks, "bytes N" and "ready"; closes when its stdin ends, and prints "calls N" and "copied N".
absl::Status RunPrefill(const WorkerOptions& options);

// Reads blocks up to "end", takes a reference on each and prints "holding"; on the next line runs
// attention over them in place and over K and V computed apart, prints "heads N", "error X",
// "calls N" and "copied N". INTERNAL where they differ by more than 1e-3, relative.
absl::Status RunDecode(const WorkerOptions& options);

// Takes blocks, prints "writing N", N of them, and writes to them until it is killed.
absl::Status RunVictim(const WorkerOptions& options);

}  // namespace kvpool::demo
