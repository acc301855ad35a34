#include "server/logging.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <google/protobuf/stubs/logging.h>
#include <grpc/support/log.h>
#include <spdlog/async.h>
#include <spdlog/spdlog.h>

#include "server/log_sink.h"

namespace kvpool::server {
namespace {

// Lines that wait for the logging thread: 4096 x some 300 bytes each.
constexpr size_t kQueueLines = 4096;
constexpr size_t kMaxTextBytes = 256;
constexpr int kLibraryLinesPerSecond = 5;

constexpr char kLevelNames[] = "trace, debug, info, warning, error, critical, off";

// Lets kLibraryLinesPerSecond lines of each second through: a peer that floods makes gRPC and
// protobuf log.
bool AdmitLibraryLine() {
  static std::atomic<int64_t> second{0};
  static std::atomic<int> lines{0};
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::steady_clock::now().time_since_epoch())
                          .count();
  if (second.exchange(now, std::memory_order_relaxed) != now) {
    lines.store(0, std::memory_order_relaxed);
  }
  return lines.fetch_add(1, std::memory_order_relaxed) < kLibraryLinesPerSecond;
}

void LogGrpcLine(gpr_log_func_args* args) {
  if (!AdmitLibraryLine()) return;
  const auto level =
      args->severity == GPR_LOG_SEVERITY_ERROR ? spdlog::level::warn : spdlog::level::debug;
  spdlog::log(level, "event=grpc message={}", LogText(args->message));
}

// Without it protobuf writes to stderr by itself, in the thread that parses what a peer sent: text
// that is not UTF-8, say.
void LogProtobufLine(google::protobuf::LogLevel level, const char* /*filename*/, int /*line*/,
                     const std::string& message) {
  // It ends the process itself after a fatal one.
  if (level != google::protobuf::LOGLEVEL_FATAL && !AdmitLibraryLine()) return;
  spdlog::warn("event=protobuf message={}", LogText(message));
}

bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || absl::StrContains("_.:/@+-", c);
}

}  // namespace

absl::StatusOr<spdlog::level::level_enum> ParseLogLevel(absl::string_view name) {
  for (int i = spdlog::level::trace; i <= spdlog::level::off; ++i) {
    const auto level = static_cast<spdlog::level::level_enum>(i);
    const spdlog::string_view_t known = spdlog::level::to_string_view(level);
    if (name == absl::string_view(known.data(), known.size())) return level;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("log level is '", name, "', not one of ", kLevelNames));
}

void StartLogging(int fd, spdlog::level::level_enum level) {
  spdlog::init_thread_pool(kQueueLines, /*threads_n=*/1);
  auto logger = std::make_shared<spdlog::async_logger>(
      "kvpoold", std::make_shared<LogSink>(fd), spdlog::thread_pool(),
      spdlog::async_overflow_policy::overrun_oldest);
  logger->set_level(level);
  // UTC to the millisecond, as RFC 3339 has it.
  logger->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
  spdlog::set_default_logger(std::move(logger));
  gpr_set_log_function(LogGrpcLine);
  google::protobuf::SetLogHandler(LogProtobufLine);
}

void StopLogging() {
  // The logger stays: gRPC's threads may log until the process is gone. Its lines are dropped, and
  // its thread ends once it has written those that came before.
  spdlog::default_logger()->set_level(spdlog::level::off);
  spdlog::details::registry::instance().set_tp(nullptr);
}

std::string LogText(absl::string_view text) {
  const bool is_cut = text.size() > kMaxTextBytes;
  text = text.substr(0, kMaxTextBytes);
  const bool is_plain = !text.empty() && std::ranges::all_of(text, IsPlain);
  if (is_plain && !is_cut) return std::string(text);
  return absl::StrCat("\"", absl::CHexEscape(text), is_cut ? "..." : "", "\"");
}

}  // namespace kvpool::server
