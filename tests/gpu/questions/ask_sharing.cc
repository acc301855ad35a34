// Who can open whose memory, and what a handle means.
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

#include "tests/gpu/questions/namespaces.h"
#include "tests/gpu/questions/peer.h"
#include "tests/gpu/questions/question.h"
#include "tests/gpu/questions/sharing.h"

namespace kvpool::questions {
namespace {

std::string MakeCommand() { return absl::StrCat("make ", kPage); }

// What the importer's open of the exporter's memory results in.
std::string TryToShare(Peer& exporter, Peer& importer) {
  const Reply made = exporter.Do(MakeCommand());
  if (!made.ok()) return "the exporter's cuMemAlloc: " + made.text;
  exporter.Do("fill 7");
  const Reply opened = importer.Do("open " + made.payload());
  if (!opened.ok()) return "open: " + opened.text;
  const Reply peeked = importer.Do("peek");
  return peeked.text == "0 7" ? "open: 0, and what was written is read" : "read: " + peeked.text;
}

void AskInNamespaces(pid_t exporters_pid, pid_t importers_pid) {
  const std::string why = WhyNoNamespaces();
  if (!why.empty()) return SayNotAsked(why);
  Peer exporter({.uid = {}, .namespaced_pid = exporters_pid, .environment = {}});
  Peer importer({.uid = {}, .namespaced_pid = importers_pid, .environment = {}});
  Say(TryToShare(exporter, importer));
}

void SayUsersSharing(uid_t exporters, uid_t importers) {
  Peer exporter({.uid = exporters, .namespaced_pid = {}, .environment = {}});
  Peer importer({.uid = importers, .namespaced_pid = {}, .environment = {}});
  Say(absl::StrCat("uid ", exporters, " to ", importers, ": ", TryToShare(exporter, importer)));
}

// What opening and reading results in.
std::string OpenAndPeek(Peer& importer, const std::string& handle) {
  const Reply opened = importer.Do("open " + handle);
  if (!opened.ok()) return opened.text;
  const Reply peeked = importer.Do("peek");
  return peeked.ok() ? "opens and reads " + peeked.payload() : "opens; read: " + peeked.text;
}

}  // namespace

void AskNamespaces() { AskInNamespaces(2, 3); }

void AskEqualPids() { AskInNamespaces(2, 2); }

void AskOtherUsers() {
  if (getuid() != 0) return SayNotAsked("only root can be other users");
  SayUsersSharing(0, 65'534);
  SayUsersSharing(65'533, 65'534);
}

void AskHandlesAgain() {
  Peer exporter;
  Peer importer;
  Peer late;
  const Reply old = exporter.Do(MakeCommand());
  if (!old.ok()) return Say("the exporter's cuMemAlloc: " + old.text);
  exporter.Do("fill 1");
  const Reply opened = importer.Do("open " + old.payload());
  if (!opened.ok()) return Say("open: " + opened.text);

  Say("freed while another has it: " + exporter.Do("free").text);
  Say("its handle then " + OpenAndPeek(late, old.payload()));
  const Reply again = exporter.Do(MakeCommand());
  if (!again.ok()) return Say("the exporter's second cuMemAlloc: " + again.text);
  exporter.Do("fill 2");
  Say(again.payload() == old.payload() ? "new memory has the same handle"
                                       : "new memory has another handle");
  const Reply peeked = importer.Do("peek");
  Say("the old mapping reads (1 is the old memory, 2 the new) " +
      (peeked.ok() ? peeked.payload() : peeked.text));
  Say("the old handle in the process that has it " + OpenAndPeek(importer, old.payload()));
  Say("the new one there " + OpenAndPeek(importer, again.payload()));
  Say("the old one in another process " + OpenAndPeek(late, old.payload()));
}

void AskSecondOpen() {
  Peer exporter;
  Peer importer;
  const Reply made = exporter.Do(MakeCommand());
  if (!made.ok()) return Say("the exporter's cuMemAlloc: " + made.text);
  exporter.Do("fill 7");
  const std::string open = "open " + made.payload();
  const Reply first = importer.Do(open);
  if (!first.ok()) return Say("open: " + first.text);
  const Reply second = importer.Do(open);
  Say(absl::StrCat("second open: ", !second.ok()                ? second.text
                                    : second.text == first.text ? "0, the same address"
                                                                : "0, another address"));
  const Reply closed = importer.Do("close");
  const Reply peeked = importer.Do("peek");
  Say(absl::StrCat("after one close (", closed.text, ") it ",
                   peeked.text == "0 7" ? "is read still" : "is not read: " + peeked.text));
  importer.Do("leave");
  Say("close without a context: " + importer.Do("close").text);
  importer.Do("enter");
  Say("the second close: " + importer.Do("close").text);
  Say("a third: " + importer.Do("close").text);
  if (importer.Do(open).ok()) {
    const Reply elsewhere = importer.Do("open_elsewhere " + made.payload());
    Say("open in a second context: " + elsewhere.text);
  }
}

void AskContextMemory() {
  const auto gpu = Gpu::OpenOrSay();
  if (gpu == nullptr) return;
  const uint64_t before = gpu->FreeBytes();
  uint64_t during = 0;
  {
    Peer peer;
    const Reply there = peer.Do("done");
    during = gpu->FreeBytes();
    if (there.text == Reply().text) return Say(there.text);
  }
  Say(absl::StrCat("a process with a context and a stream takes ", MibBetween(during, before),
                   "; of it there is ", MibBetween(gpu->FreeBytes(), before),
                   " left when it has ended"));
}

}  // namespace kvpool::questions
