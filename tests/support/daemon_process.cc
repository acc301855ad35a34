#include "tests/support/daemon_process.h"

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "grpc/health/v1/health.grpc.pb.h"
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include "core/check.h"
#include "tests/support/eventually.h"

namespace kvpool::test {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

size_t CountEntries(const std::string& path) {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path)) ++count;
  return count;
}

}  // namespace

DaemonProcess::DaemonProcess(Options options) : options_(std::move(options)) {
  SetPools(options_.pools_json);
  Start();
}

DaemonProcess::~DaemonProcess() {
  process_.reset();
  const std::string log = Log();
  const bool is_clean = log.find("Sanitizer: ") == std::string::npos;
  if (!is_clean) fprintf(stderr, "the daemon's log has a report:\n%s\n", log.c_str());
  KVPOOL_CHECK(is_clean);
}

void DaemonProcess::Start() {
  std::vector<std::string> arguments = options_.launcher;
  arguments.emplace_back(KVPOOL_KVPOOLD);
  arguments.push_back("--config=" + directory_.File("config.json"));
  arguments.insert(arguments.end(), options_.flags.begin(), options_.flags.end());
  process_.emplace(ChildProcess::Options{.arguments = std::move(arguments),
                                         .environment = options_.environment,
                                         .stderr_path = directory_.File("log"),
                                         .uid = std::nullopt});
  if (options_.wait_until_serving) WaitUntilServing();
}

void DaemonProcess::SetPools(const std::string& pools_json) {
  std::string listeners = options_.listeners_json;
  if (listeners.empty()) {
    listeners = R"([{"address": ")" + worker_socket() + R"(", "role": "ROLE_WORKER", )" +
                R"("mode": "0666"}, {"address": ")" + operator_socket() +
                R"(", "role": "ROLE_OPERATOR"}])";
  }
  std::ofstream(directory_.File("config.json"))
      << R"({"pools": )" << pools_json << R"(, "listeners": )" << listeners << "}\n";
}

int DaemonProcess::Stop() {
  process_->Signal(SIGTERM);
  return process_->Wait();
}

std::shared_ptr<grpc::Channel> DaemonProcess::Connect(const std::string& socket) const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 20);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  arguments.SetMaxReceiveMessageSize(-1);
  return grpc::CreateCustomChannel(socket, grpc::InsecureChannelCredentials(), arguments);
}

void DaemonProcess::WaitUntilServing() const {
  const auto stub = grpc::health::v1::Health::NewStub(Connect(operator_socket()));
  const bool serving = Eventually([&] {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(1));
    context.set_wait_for_ready(true);
    grpc::health::v1::HealthCheckResponse response;
    return stub->Check(&context, {}, &response).ok() &&
           response.status() == grpc::health::v1::HealthCheckResponse::SERVING;
  });
  if (!serving) fprintf(stderr, "the daemon does not serve; its log:\n%s\n", Log().c_str());
  KVPOOL_CHECK(serving);
}

std::string DaemonProcess::Log() const { return ReadFile(directory_.File("log")); }

size_t DaemonProcess::CountFds() const {
  return CountEntries("/proc/" + std::to_string(process_->pid()) + "/fd");
}

size_t DaemonProcess::CountThreads() const {
  return CountEntries("/proc/" + std::to_string(process_->pid()) + "/task");
}

size_t DaemonProcess::CountMaps() const {
  const std::string maps = ReadFile("/proc/" + std::to_string(process_->pid()) + "/maps");
  return static_cast<size_t>(std::count(maps.begin(), maps.end(), '\n'));
}

uint64_t DaemonProcess::ResidentBytes() const {
  std::istringstream text(ReadFile("/proc/" + std::to_string(process_->pid()) + "/statm"));
  uint64_t total_pages = 0;
  uint64_t resident_pages = 0;
  text >> total_pages >> resident_pages;
  return resident_pages * 4096;
}

uint64_t DaemonProcess::AnonymousBytes() const {
  std::istringstream text(ReadFile("/proc/" + std::to_string(process_->pid()) + "/status"));
  const std::string name = "RssAnon:";
  std::string line;
  while (std::getline(text, line)) {
    if (line.rfind(name, 0) == 0) return std::stoull(line.substr(name.size())) * 1024;
  }
  return 0;  // It has ended.
}

}  // namespace kvpool::test
