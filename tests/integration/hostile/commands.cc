#include "tests/integration/hostile/commands.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "core/error.h"
#include "core/status_macros.h"
#include "tests/integration/hostile/floods.h"
#include "tests/integration/hostile/half_open.h"
#include "tests/integration/hostile/http2_frames.h"
#include "tests/integration/hostile/own_channel.h"
#include "tests/integration/hostile/packets.h"
#include "tests/integration/hostile/random_calls.h"
#include "tests/integration/hostile/raw_socket.h"
#include "tests/integration/hostile/wire_bytes.h"

namespace kvpool::test {
namespace {

template <typename Number>
absl::StatusOr<Number> ToNumber(const std::string& word) {
  Number number = 0;
  if (absl::SimpleAtoi(word, &number)) return number;
  return absl::InvalidArgumentError(absl::StrCat("no number: ", word));
}

absl::StatusOr<std::string> Done(const absl::Status& status) {
  KVPOOL_RETURN_IF_ERROR(status);
  return std::string();
}

}  // namespace

struct Commands::Entry {
  absl::string_view name;
  size_t word_count;
  Answer (Commands::*run)(const Words& words);
};

const std::vector<Commands::Entry>& Commands::Table() {
  static const auto& table = *new std::vector<Entry>{
      {"open", 2, &Commands::Open},
      {"open-unattached", 3, &Commands::OpenUnattached},
      {"open-by-helper", 3, &Commands::OpenByHelper},
      {"attach", 1, &Commands::Attach},
      {"alloc", 2, &Commands::Alloc},
      {"fd", 3, &Commands::AskFd},
      {"map", 1, &Commands::Map},
      {"try", 2, &Commands::Try},
      {"fork", 1, &Commands::Fork},
      {"stop", 1, &Commands::Stop},
      {"connect", 3, &Commands::Connect},
      {"half-open", 2, &Commands::HalfOpen},
      {"await-end", 1, &Commands::AwaitEnd},
      {"pass-fds", 1, &Commands::Connect},
      {"packets", 3, &Commands::Packets},
      {"unread", 1, &Commands::Packets},
      {"bytes", 4, &Commands::Bytes},
      {"calls", 3, &Commands::Calls},
      {"bad", 2, &Commands::Bad},
      {"streams", 2, &Commands::Streams},
      {"oversize", 1, &Commands::Streams},
      {"sessions", 2, &Commands::Sessions},
      {"close-sessions", 1, &Commands::CloseSessions},
      {"waits", 3, &Commands::Waits},
  };
  return table;
}

Commands::Commands(std::string address)
    : address_(std::move(address)), client_(OwnChannel(address_)) {}

Commands::~Commands() = default;

std::string Commands::Run(const std::string& line) {
  const Words words = absl::StrSplit(line, ' ');
  if (words[0] == "die") std::_Exit(1);
  for (const Entry& entry : Table()) {
    if (entry.name != words[0] || entry.word_count != words.size()) continue;
    const Answer answer = (this->*entry.run)(words);
    if (answer.ok()) return answer->empty() ? "ok" : absl::StrCat("ok ", *answer);
    return absl::StrCat("error ", Said(answer), ": ", answer.status().message());
  }
  return absl::StrCat("error not understood: ", line);
}

absl::StatusOr<std::string> Commands::SessionId() const {
  if (session_ == nullptr) return absl::FailedPreconditionError("no session was opened");
  return session_->id();
}

Commands::Answer Commands::Open(const Words& words) {
  KVPOOL_RETURN_IF_ERROR(OpenUnattached({words[0], words[1], "60"}).status());
  KVPOOL_RETURN_IF_ERROR(session_->Attach());
  return session_->id();
}

Commands::Answer Commands::OpenUnattached(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const int64_t ttl_seconds, ToNumber<int64_t>(words[2]));
  v1::OpenSessionRequest request;
  request.set_pool(words[1]);
  request.set_client_name("hostile");
  request.mutable_ttl()->set_seconds(ttl_seconds);
  KVPOOL_ASSIGN_OR_RETURN(session_, RawSession::Open(client_, std::move(request)));
  return session_->id();
}

Commands::Answer Commands::OpenByHelper(const Words& words) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const std::string command =
      absl::StrCat(program, " ", address_, " --open ", words[1], " ", words[2]);
  FILE* helper = popen(command.c_str(), "re");
  if (helper == nullptr) return absl::InternalError("popen");
  std::array<char, 512> line{};
  const bool has_line = fgets(line.data(), line.size(), helper) != nullptr;
  if (pclose(helper) != 0 || !has_line) return absl::InternalError("the helper failed");
  absl::string_view id = line.data();
  if (!absl::ConsumePrefix(&id, "ok ")) return absl::InternalError(id);
  v1::OpenSessionResponse opened;
  opened.set_session_id(std::string(absl::StripSuffix(id, "\n")));
  session_ = std::make_unique<RawSession>(client_, std::move(opened));
  return session_->id();
}

Commands::Answer Commands::Attach(const Words& /*words*/) {
  KVPOOL_RETURN_IF_ERROR(SessionId().status());
  return Done(session_->Attach());
}

Commands::Answer Commands::Alloc(const Words& words) {
  KVPOOL_RETURN_IF_ERROR(SessionId().status());
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[1]));
  return Done(session_->Alloc(count).status());
}

Commands::Answer Commands::AskFd(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const uint64_t region, ToNumber<uint64_t>(words[2]));
  const auto fd = StolenRegion::Fetch(address_, words[1], region);
  return absl::StatusCodeToString(fd.status().code());
}

Commands::Answer Commands::Map(const Words& /*words*/) {
  KVPOOL_RETURN_IF_ERROR(SessionId().status());
  const v1::MemoryRegion& region = session_->opened().regions(0);
  KVPOOL_ASSIGN_OR_RETURN(client::OwnedFd fd,
                          StolenRegion::Fetch(address_, session_->id(), region.region_id()));
  KVPOOL_ASSIGN_OR_RETURN(region_, StolenRegion::Map(std::move(fd), region.size_bytes()));
  return std::string();
}

Commands::Answer Commands::Try(const Words& words) {
  if (!region_.has_value()) return absl::FailedPreconditionError("nothing is mapped");
  return region_->Try(words[1]);
}

Commands::Answer Commands::Fork(const Words& /*words*/) {
  const pid_t child = fork();
  if (child == 0) {
    // Not for longer than the worker's own parent, the test, should it die.
    alarm(120);
    while (true) pause();
  }
  return absl::StrCat(child);
}

Commands::Answer Commands::Stop(const Words& /*words*/) {
  std::raise(SIGSTOP);
  return std::string();
}

Commands::Answer Commands::Connect(const Words& words) {
  if (words[0] == "pass-fds") {
    KVPOOL_ASSIGN_OR_RETURN(const client::OwnedFd fd, ConnectTo(address_, SOCK_STREAM));
    const std::array fds{STDIN_FILENO, fd.get(), fd.get()};
    SendFds(fd.get(), Preface(), fds);
    SendFds(fd.get(), "no frame", fds);
    return std::string();
  }
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[2]));
  const bool is_fd = words[1] == "fd";
  for (uint32_t i = 0; i < count; ++i) {
    KVPOOL_ASSIGN_OR_RETURN(client::OwnedFd fd, ConnectTo(is_fd ? address_ + ".fd" : address_,
                                                          is_fd ? SOCK_SEQPACKET : SOCK_STREAM));
    if (words[1] == "half") Send(fd.get(), HalfPreface());
    if (words[1] == "settings") Send(fd.get(), Preface());
    held_.push_back(std::move(fd));
  }
  return std::string();
}

Commands::Answer Commands::HalfOpen(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[1]));
  KVPOOL_ASSIGN_OR_RETURN(std::vector<client::OwnedFd> fds, OpenHalf(address_, count));
  for (client::OwnedFd& fd : fds) held_.push_back(std::move(fd));
  return std::string();
}

Commands::Answer Commands::AwaitEnd(const Words& /*words*/) {
  for (const client::OwnedFd& fd : held_) KVPOOL_RETURN_IF_ERROR(ReadToEnd(fd.get()));
  held_.clear();
  return std::string();
}

Commands::Answer Commands::Packets(const Words& words) {
  if (words[0] == "unread") return Done(AskWithoutReading(address_));
  KVPOOL_ASSIGN_OR_RETURN(const uint64_t seed, ToNumber<uint64_t>(words[1]));
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[2]));
  return Done(SendBadPackets(address_, seed, count));
}

Commands::Answer Commands::Bytes(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const uint64_t seed, ToNumber<uint64_t>(words[2]));
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[3]));
  return Done(SendBadBytes(address_, words[1], seed, count));
}

Commands::Answer Commands::Calls(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const std::string session, SessionId());
  KVPOOL_ASSIGN_OR_RETURN(const uint64_t seed, ToNumber<uint64_t>(words[1]));
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[2]));
  return CallAtRandom({.address = address_,
                       .seed = seed,
                       .count = count,
                       .words = {"p", "closed", session, session.substr(0, 8)}});
}

Commands::Answer Commands::Bad(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const std::string session, SessionId());
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[1]));
  return FloodWithBadCalls(address_, session, count);
}

Commands::Answer Commands::Streams(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const std::string session, SessionId());
  if (words[0] == "oversize") return Done(SendOversize(address_, session));
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[1]));
  return Done(FloodWithStreams(address_, session, count));
}

Commands::Answer Commands::Sessions(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[1]));
  return OpenManySessions(address_, count, session_ids_);
}

Commands::Answer Commands::CloseSessions(const Words& /*words*/) {
  return Done(test::CloseSessions(address_, session_ids_));
}

Commands::Answer Commands::Waits(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const std::string session, SessionId());
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t count, ToNumber<uint32_t>(words[1]));
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t refused_count, ToNumber<uint32_t>(words[2]));
  return WaitManyTimes(address_, session, count, refused_count);
}

}  // namespace kvpool::test
