#include "tests/integration/worker/commands.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <set>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "core/error.h"
#include "core/status_macros.h"
#include "tests/integration/support/block_bytes.h"

namespace kvpool::test {
namespace {

absl::Status NotUnderstood(const std::vector<std::string>& words) {
  return absl::InvalidArgumentError(absl::StrCat("not understood: ", words[0]));
}

std::string Said(const absl::Status& status) {
  if (status.ok()) return "ok";
  return absl::StrCat("error ", absl::StatusCodeToString(status.code()), " ",
                      ReasonName(GetErrorDetail(status).reason), ": ", status.message());
}

absl::StatusOr<uint32_t> Number(const std::vector<std::string>& words, size_t index) {
  uint32_t number = 0;
  if (words.size() <= index || !absl::SimpleAtoi(words[index], &number)) {
    return NotUnderstood(words);
  }
  return number;
}

absl::StatusOr<BlockRef> Ref(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  uint32_t id = 0;
  uint64_t generation = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &id) ||
      !absl::SimpleAtoi(parts[1], &generation)) {
    return NotUnderstood({text});
  }
  return BlockRef{.block = BlockId{id}, .generation = Generation{generation}};
}

}  // namespace

std::string Commands::Run(const std::string& line) {
  const Words words = absl::StrSplit(line, ' ');
  const absl::StatusOr<std::string> answer = Do(words);
  if (!answer.ok()) return Said(answer.status());
  return answer->empty() ? "ok" : absl::StrCat("ok ", *answer);
}

absl::StatusOr<std::string> Commands::Do(const Words& words) {
  const std::string& command = words[0];
  if (command == "open" || command == "join") return Open(words);
  if (session_ == nullptr) return absl::FailedPreconditionError("no session was opened");
  if (command == "close") return Close();
  if (command == "id") return session_->id().ToString();
  if (command == "alive") {
    KVPOOL_RETURN_IF_ERROR(session_->status());
    return std::string();
  }
  if (command == "alloc" || command == "alloc-many") return Alloc(words);
  if (command == "take") return Take(words);
  if (command == "refs") return Refs();
  if (command == "drop") return Drop();
  if (command == "keep") return Keep();
  if (command == "drop-kept") return DropKept();
  if (command == "map") return Map();
  if (command == "write" || command == "write-half") return Write(words);
  if (command == "read") return Read(words);
  if (command == "cut") return Cut();
  if (command == "fork") return Fork();
  if (command == "fork-call") return ForkCall();
  if (command == "notice") return WaitForNotice(words);
  if (command == "notices") return CountNotices(words);
  if (command == "stop") {
    std::raise(SIGSTOP);
    return std::string();
  }
  return NotUnderstood(words);
}

absl::StatusOr<std::string> Commands::Open(const Words& words) {
  client::SessionOptions options;
  if (words[0] == "open") {
    if (words.size() != 3) return NotUnderstood(words);
    options.pool = words[1];
    options.client_name = words[2];
  } else {
    if (words.size() != 3) return NotUnderstood(words);
    options.pool = words[1];
    KVPOOL_ASSIGN_OR_RETURN(options.join, SessionId::Parse(words[2]));
  }
  options.on_notice = [this](const client::Notice& notice) {
    const MutexLock lock(mutex_);
    notices_.push_back(notice);
    noticed_.notify_all();
  };
  mapping_.reset();
  leases_.clear();
  session_.reset();
  KVPOOL_ASSIGN_OR_RETURN(session_, client_.OpenSession(std::move(options)));
  return std::string();
}

absl::StatusOr<std::string> Commands::Close() {
  mapping_.reset();
  KVPOOL_RETURN_IF_ERROR(session_->Close());
  return std::string();
}

absl::StatusOr<std::string> Commands::Alloc(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(uint32_t count, Number(words, 1));
  while (count > 0) {
    const uint32_t some = std::min(count, session_->limits().max_blocks_per_call);
    KVPOOL_ASSIGN_OR_RETURN(std::vector<client::BlockLease> leases, session_->Alloc(some));
    std::move(leases.begin(), leases.end(), std::back_inserter(leases_));
    count -= some;
  }
  return words[0] == "alloc" ? Refs() : std::string();
}

absl::StatusOr<std::string> Commands::Take(const Words& words) {
  std::vector<BlockRef> refs;
  for (size_t i = 1; i < words.size(); ++i) {
    KVPOOL_ASSIGN_OR_RETURN(const BlockRef ref, Ref(words[i]));
    refs.push_back(ref);
  }
  KVPOOL_ASSIGN_OR_RETURN(std::vector<client::BlockLease> leases, session_->IncRef(refs));
  std::move(leases.begin(), leases.end(), std::back_inserter(leases_));
  return std::string();
}

std::string Commands::Refs() const {
  std::vector<std::string> texts;
  for (const client::BlockLease& lease : leases_) {
    texts.push_back(
        absl::StrCat(ToIndex(lease.id()), ":", static_cast<uint64_t>(lease.generation())));
  }
  return absl::StrJoin(texts, " ");
}

absl::StatusOr<std::string> Commands::Drop() {
  leases_.clear();
  KVPOOL_RETURN_IF_ERROR(session_->Flush());
  return std::string();
}

absl::StatusOr<std::string> Commands::Keep() {
  std::move(leases_.begin(), leases_.end(), std::back_inserter(kept_));
  leases_.clear();
  return std::string();
}

absl::StatusOr<std::string> Commands::DropKept() {
  kept_.clear();
  KVPOOL_RETURN_IF_ERROR(session_->Flush());
  return std::string();
}

absl::StatusOr<std::string> Commands::Map() {
  KVPOOL_ASSIGN_OR_RETURN(mapping_, session_->Map());
  return std::string();
}

absl::StatusOr<std::string> Commands::Write(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t byte, Number(words, 1));
  if (!mapping_.has_value()) KVPOOL_RETURN_IF_ERROR(Map().status());
  const size_t divisor = words[0] == "write" ? 1 : 2;
  for (const client::BlockLease& lease : leases_) {
    KVPOOL_RETURN_IF_ERROR(EachSide(*mapping_, [&](uint32_t layer, bool is_k) {
      const std::vector<std::byte> bytes(SideSize(*mapping_, layer, is_k) / divisor,
                                         std::byte{static_cast<uint8_t>(byte)});
      return WriteSide(*mapping_, layer, is_k, lease.id(), bytes);
    }));
  }
  return std::string();
}

absl::StatusOr<std::string> Commands::Read(const Words& words) const {
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t id, Number(words, 1));
  if (!mapping_.has_value()) return absl::FailedPreconditionError("nothing is mapped");
  std::set<std::byte> values;
  KVPOOL_RETURN_IF_ERROR(EachSide(*mapping_, [&](uint32_t layer, bool is_k) {
    const auto side = ReadSide(*mapping_, layer, is_k, BlockId{id});
    if (side.ok()) values.insert(side->begin(), side->end());
    return side.status();
  }));
  return values.size() == 1 ? absl::StrCat(static_cast<uint32_t>(*values.begin()))
                            : std::string("mixed");
}

absl::StatusOr<std::string> Commands::Cut() {
  // Not its end of the session, which would say that nothing writes any more: the kernel's end of
  // every socket, as when its channel breaks.
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int fd = -1;
    if (absl::SimpleAtoi(entry.path().filename().string(), &fd)) {
      static_cast<void>(shutdown(fd, SHUT_RDWR));  // Most are no sockets.
    }
  }
  return std::string();
}

absl::StatusOr<std::string> Commands::Fork() {
  const pid_t child = fork();
  if (child == 0) {
    // Not for longer than the worker's own parent, the test, should it die.
    alarm(120);
    while (true) pause();
  }
  return absl::StrCat(child);
}

// The child ends as programs do, with every destructor of a static and every exit handler.
absl::StatusOr<std::string> Commands::ForkCall() {
  int ends[2];
  if (pipe(ends) != 0) return absl::InternalError("pipe");
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);  // A child that hangs fails.
    const std::string told = Said(session_->Alloc(1).status());
    if (write(ends[1], told.data(), told.size()) < 0) _exit(1);
    std::exit(0);
  }
  close(ends[1]);
  char buffer[512];
  const ssize_t size = read(ends[0], buffer, sizeof(buffer));
  close(ends[0]);
  int state = 0;
  if (waitpid(child, &state, 0) != child || state != 0 || size <= 0) {
    return absl::InternalError("the child failed");
  }
  return std::string(buffer, static_cast<size_t>(size));
}

absl::StatusOr<std::string> Commands::WaitForNotice(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t kind, Number(words, 1));
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  const MutexLock lock(mutex_);
  while (std::ranges::find(notices_, client::Notice::Kind{static_cast<uint8_t>(kind)},
                           &client::Notice::kind) == notices_.end()) {
    if (noticed_.wait_until(mutex_, end) == std::cv_status::timeout) {
      return absl::DeadlineExceededError("no such notice");
    }
  }
  return std::string();
}

absl::StatusOr<std::string> Commands::CountNotices(const Words& words) {
  KVPOOL_ASSIGN_OR_RETURN(const uint32_t kind, Number(words, 1));
  const MutexLock lock(mutex_);
  return absl::StrCat(std::ranges::count(notices_, client::Notice::Kind{static_cast<uint8_t>(kind)},
                                         &client::Notice::kind));
}

}  // namespace kvpool::test
