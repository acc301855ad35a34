#pragma once

#include <string>

#include "absl/status/status.h"

#include "core/device/device.h"
#include "core/ids.h"

namespace kvpool::server {

// The argument, the only one, with which kvpoold is the other process of TestIpc.
inline constexpr char kIpcProbeArgument[] = "--ipc_probe";

// Tests that other processes can map the device's memory: writes a pattern into a small region of
// its own and has `program`, a kvpoold, open and read it, with this process's environment. Kills it
// where that takes longer than `deadline`. Nothing of it is left when this returns, which is only
// when the kernel has let the killed process go. Errors: FAILED_PRECONDITION (DEVICE), naming the
// device and saying what went wrong and what it means for an operator. Requires that SIGCHLD is not
// ignored. Thread-safe.
absl::Status TestIpc(Device& device, const std::string& program, Duration deadline);

// The other process: does what its standard input says. Returns the exit code, after one line on
// the standard output: 0 and "ok", or 1 and what went wrong.
int AnswerIpcProbe();

}  // namespace kvpool::server
