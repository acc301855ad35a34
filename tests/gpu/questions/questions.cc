#include <sys/utsname.h>

#include <array>
#include <iostream>

#include "absl/strings/str_cat.h"

#include "tests/gpu/questions/gpu.h"
#include "tests/gpu/questions/question.h"

namespace kvpool::questions {

std::span<const Question> Questions() {
  static constexpr std::array kQuestions = {
      Question{14, "clients in MPS, an owner outside, one client killed", AskMps},
      Question{1, "opening between namespaces, other pid", AskNamespaces},
      Question{2, "opening between namespaces, equal pid", AskEqualPids},
      Question{3, "opening another user's memory", AskOtherUsers},
      Question{4, "an exporter killed", AskKilledExporter},
      Question{5, "memory freed and allocated again", AskHandlesAgain},
      Question{6, "a second open, a second context", AskSecondOpen},
      Question{12, "a client killed while its kernel runs, and one that has forked",
               AskKilledKernel},
      Question{9, "compiling the kernels, zeroing", AskZeroing},
      Question{10, "copies by loop and by batch", AskCopies},
      Question{13, "memory of a context", AskContextMemory},
      Question{7, "a descriptor of a killed exporter's memory", AskKeptFd},
      Question{8, "writing to a read-only map", AskReadOnlyMap},
      Question{11, "waiting for a number that another process writes", AskSemaphore},
  };
  return kQuestions;
}

void Say(absl::string_view piece) { std::cout << piece << std::endl; }

void SayNotAsked(absl::string_view why) { Say(absl::StrCat("not asked: ", why)); }

bool SayMachine() {
  const auto gpu = Gpu::Open();
  if (!gpu.ok()) {
    std::cerr << gpu.status().message() << std::endl;
    return false;
  }
  utsname system{};
  uname(&system);
  const int version = (*gpu)->driver_version();
  Say(absl::StrCat((*gpu)->context()->entry().name, ", driver of CUDA ", version / 1000, ".",
                   version % 1000 / 10, ", Linux ", system.release));
  return true;
}

}  // namespace kvpool::questions
