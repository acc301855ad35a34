#pragma once

#include <span>

#include "absl/strings/string_view.h"

namespace kvpool::questions {

// A question about a driver and its machine. `ask` runs in a process of its own, which may be
// ended at any time, and tells what it sees by Say.
struct Question {
  int number = 0;
  absl::string_view text;  // A few words, for a table's cell.
  void (*ask)() = nullptr;
};

// All of them, the most valuable first.
std::span<const Question> Questions();

// Adds a piece to the answer, at once: what was said stands, whatever becomes of the process.
void Say(absl::string_view piece);
// That the question cannot be asked here, or what of it cannot.
void SayNotAsked(absl::string_view why);

// The name and version of what is asked: nothing where there is no driver or no device, after
// saying why on stderr in one line.
bool SayMachine();

// ask_sharing.cc
void AskNamespaces();
void AskEqualPids();
void AskOtherUsers();
void AskHandlesAgain();
void AskSecondOpen();
void AskContextMemory();
// ask_death.cc
void AskMps();
void AskKilledExporter();
void AskKilledKernel();
// ask_speed.cc
void AskZeroing();
void AskCopies();
// ask_virtual_memory.cc
void AskKeptFd();
void AskReadOnlyMap();
// ask_semaphore.cc
void AskSemaphore();

}  // namespace kvpool::questions
