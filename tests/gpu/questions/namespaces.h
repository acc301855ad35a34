#pragma once

#include <sys/types.h>

#include <string>

namespace kvpool::questions {

// Why this process cannot make namespaces (pid, ipc, net, mount); nothing where it can.
std::string WhyNoNamespaces();

// Runs a program in namespaces of its own, with its own /proc, where its pid is `pid`, and waits
// for it. The program's exit code, or 1 where it cannot be run. What is in the namespaces dies
// with this process.
int RunInNamespaces(pid_t pid, char* const* arguments);

}  // namespace kvpool::questions
