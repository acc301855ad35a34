#include "core/device/cuda/cuda_importer.h"

#include <atomic>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <future>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "tests/fakecuda/fixture.h"
#include "tests/fakecuda/peer.h"
#include "tests/support/eventually.h"
#include "tests/unit/cuda/says.h"

namespace kvpool::cuda {
namespace {

constexpr uint64_t kSize = uint64_t{2} << 20;

// A region that another process owns, on the first device.
class Owner {
 public:
  explicit Owner(std::vector<std::string> environment) : peer_(environment) {
    std::string hex;
    REQUIRE(peer_.Do("make " + std::to_string(kSize), &hex) == 0);
    handle_ = fakecuda::FromHex(hex);
  }

  std::span<const std::byte> handle() const { return std::as_bytes(std::span(handle_.bytes)); }
  fakecuda::Peer& peer() { return peer_; }

 private:
  fakecuda::Peer peer_;
  IpcHandle handle_{};
};

// A fresh fake driver and an importer that takes it.
class Fixture {
 public:
  explicit Fixture(const char* devices = "1") { fakecuda_set("FAKECUDA_DEVICES", devices); }

  Owner MakeOwner() { return Owner({"FAKECUDA_DIR=" + fresh_.directory()}); }
  std::string uuid(size_t ordinal = 0) {
    const auto devices = importer_.List();
    REQUIRE(devices.ok());
    return devices->at(ordinal).uuid;
  }
  ImportRequest Request(const Owner& owner) {
    return {.daemon_epoch = "epoch",
            .region_id = 1,
            .device_uuid = uuid(),
            .handle = owner.handle(),
            .size_bytes = kSize};
  }
  CudaImporter& importer() { return importer_; }

 private:
  const fakecuda::FreshDriver fresh_;
  CudaImporter importer_{FAKECUDA_LIBRARY};
};

// An event that was recorded on a stream of the first device's, whose context is current here.
class RecordedEvent {
 public:
  RecordedEvent() {
    REQUIRE(cuEventCreate(&event_, 0) == Result::kSuccess);
    REQUIRE(cuEventRecord(event_, device_.stream()) == Result::kSuccess);
  }
  ~RecordedEvent() { cuEventDestroy_v2(event_); }

  RecordedEvent(const RecordedEvent&) = delete;
  RecordedEvent& operator=(const RecordedEvent&) = delete;

  void* get() const { return event_; }

 private:
  fakecuda::CurrentDevice device_;
  Event event_ = nullptr;
};

TEST_CASE("an importer lists the devices that this process sees") {
  Fixture fixture("2");
  const auto devices = fixture.importer().List();
  REQUIRE(devices.ok());
  REQUIRE(devices->size() == 2);
  CHECK((*devices)[0].kind == DeviceKind::kCuda);
  CHECK((*devices)[0].uuid.starts_with("GPU-"));
  CHECK((*devices)[0].uuid != (*devices)[1].uuid);
  CHECK_FALSE((*devices)[0].name.empty());
}

TEST_CASE("a region that is opened again while it is open is the same object") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const auto first = fixture.importer().Open(fixture.Request(owner));
  REQUIRE(first.ok());
  CHECK((*first)->size_bytes() == kSize);
  CHECK((*first)->ordinal() == 0);
  CHECK((*first)->base() != 0);
  const auto second = fixture.importer().Open(fixture.Request(owner));
  REQUIRE(second.ok());
  CHECK(*first == *second);
  CHECK(fakecuda_calls("cuIpcOpenMemHandle") == 1);
  CHECK(fakecuda_live("import") == 1);
}

TEST_CASE("the last holder of a region closes it, and it can be opened again") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  auto first = fixture.importer().Open(fixture.Request(owner));
  auto second = fixture.importer().Open(fixture.Request(owner));
  REQUIRE(first.ok());
  first->reset();
  CHECK(fakecuda_live("import") == 1);
  second->reset();
  CHECK(fakecuda_live("import") == 0);
  CHECK(fixture.importer().Open(fixture.Request(owner)).ok());
  CHECK(fakecuda_calls("cuIpcOpenMemHandle") == 2);
  CHECK(fakecuda_calls("cuIpcCloseMemHandle") == 2);
}

TEST_CASE("another region, or the same one of another life of the daemon, is opened for itself") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const Owner other = fixture.MakeOwner();
  ImportRequest request = fixture.Request(owner);
  const auto first = fixture.importer().Open(request);
  SECTION("of another id") { request.region_id = 2; }
  SECTION("of another epoch") { request.daemon_epoch = "later"; }
  request.handle = other.handle();
  const auto second = fixture.importer().Open(request);
  REQUIRE(first.ok());
  REQUIRE(second.ok());
  CHECK((*first)->base() != (*second)->base());
}

TEST_CASE("an open region that is asked for as another one is refused with what differs") {
  Fixture fixture("2");
  const Owner owner = fixture.MakeOwner();
  const Owner other = fixture.MakeOwner();
  ImportRequest request = fixture.Request(owner);
  const auto open = fixture.importer().Open(request);
  REQUIRE(open.ok());
  std::string word;
  SECTION("by its handle") {
    request.handle = other.handle();
    word = "another handle";
  }
  SECTION("by its size") {
    request.size_bytes = kSize - 1;
    word = "another size: 2097152, not 2097151 bytes";
  }
  SECTION("by its device") {
    request.device_uuid = fixture.uuid(1);
    word = "another device: " + fixture.uuid(0) + ", not " + fixture.uuid(1);
  }
  CheckRefused(fixture.importer().Open(request).status(), absl::StatusCode::kInvalidArgument,
               Reason::kUnspecified, {"region 1 of daemon 'epoch'", word.c_str()});
  CHECK(fakecuda_calls("cuIpcOpenMemHandle") == 1);
}

TEST_CASE("threads that open a region at once open it once") {
  constexpr int kThreads = 8;
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const ImportRequest request = fixture.Request(owner);
  std::vector<std::shared_ptr<const ImportedMemory>> opened(kThreads);
  {
    std::barrier start(kThreads);
    std::vector<std::jthread> threads;
    for (auto& memory : opened) {
      threads.emplace_back([&] {
        start.arrive_and_wait();
        if (auto result = fixture.importer().Open(request); result.ok()) memory = *result;
      });
    }
  }
  for (const auto& memory : opened) {
    CHECK(memory != nullptr);
    CHECK(memory == opened.front());
  }
  CHECK(fakecuda_calls("cuIpcOpenMemHandle") == 1);
}

TEST_CASE("a region that is let go while another thread opens it is there for the other") {
  constexpr int kRounds = 300;
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const ImportRequest request = fixture.Request(owner);
  std::atomic<int> missing = 0;
  {
    std::barrier round(2);
    const auto work = [&] {
      Context context = nullptr;
      cuDevicePrimaryCtxRetain(&context, 0);
      cuCtxPushCurrent_v2(context);
      for (int i = 0; i < kRounds; ++i) {
        round.arrive_and_wait();
        const auto memory = fixture.importer().Open(request);
        DevicePointer base = 0;
        size_t size = 0;
        if (!memory.ok() ||
            cuMemGetAddressRange_v2(&base, &size, (*memory)->base()) != Result::kSuccess ||
            base != (*memory)->base() || size != kSize) {
          ++missing;
        }
      }
      cuCtxPopCurrent_v2(nullptr);
      cuDevicePrimaryCtxRelease_v2(0);
    };
    const std::jthread first(work);
    const std::jthread second(work);
  }
  CHECK(missing == 0);
  CHECK(fakecuda_live("import") == 0);
  CHECK(fakecuda_calls("cuIpcOpenMemHandle") == fakecuda_calls("cuIpcCloseMemHandle"));
}

TEST_CASE("a device is readied once, whatever is opened on it") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const Owner other = fixture.MakeOwner();
  ImportRequest request = fixture.Request(owner);
  const auto first = fixture.importer().Open(request);
  request.region_id = 2;
  request.handle = other.handle();
  const auto second = fixture.importer().Open(request);
  CHECK(second.ok());
  CHECK(fakecuda_calls("cuDevicePrimaryCtxRetain") == 1);
}

TEST_CASE("a UUID that no device here has is refused, and so is what is none") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  ImportRequest request = fixture.Request(owner);
  request.device_uuid = "GPU-00000000-0000-0000-0000-000000000000";
  CheckRefused(fixture.importer().Open(request).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {request.device_uuid.c_str(), "there are: 0 = GPU-"});
  request.device_uuid = "0";
  CheckRefused(fixture.importer().Open(request).status(), absl::StatusCode::kInvalidArgument,
               Reason::kUnspecified, {"'0' is no GPU's UUID"});
}

TEST_CASE("what the driver cannot open is refused, and tried again by the next call") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const ImportRequest request = fixture.Request(owner);
  fakecuda_set("FAKECUDA_FAIL", "cuIpcOpenMemHandle:1:201");
  CheckRefused(fixture.importer().Open(request).status(), absl::StatusCode::kFailedPrecondition,
               Reason::kPidCollision, {"same pid"});
  CHECK(fixture.importer().Open(request).ok());
}

TEST_CASE("a driver that is not there is looked for again by the next call") {
  const fakecuda::FreshDriver fresh;
  const std::string library = fresh.File("driver.so");
  CudaImporter importer(library);
  CheckRefused(importer.List().status(), absl::StatusCode::kFailedPrecondition, Reason::kDevice,
               {"there is no CUDA driver here"});
  CheckRefused(importer.AwaitEvent("GPU-1", nullptr, {}), absl::StatusCode::kFailedPrecondition,
               Reason::kDevice, {"there is no CUDA driver here"});
  std::filesystem::create_symlink(FAKECUDA_LIBRARY, library);
  CHECK(importer.List().ok());
}

TEST_CASE("a wait for an event ends when what it was recorded after is done") {
  Fixture fixture;
  fakecuda_hold();
  const RecordedEvent event;
  const std::string uuid = fixture.uuid();
  auto waiting = std::async(std::launch::async,
                            [&] { return fixture.importer().AwaitEvent(uuid, event.get(), {}); });
  // It has looked, more than once, and goes on waiting.
  CHECK(test::Eventually([] { return fakecuda_calls("cuEventQuery") >= 3; }));
  fakecuda_release();
  CHECK(waiting.get().ok());
}

TEST_CASE("while one thread waits for an event another can open") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const ImportRequest request = fixture.Request(owner);
  fakecuda_hold();
  const RecordedEvent event;
  auto waiting = std::async(std::launch::async, [&] {
    return fixture.importer().AwaitEvent(request.device_uuid, event.get(), {});
  });
  CHECK(test::Eventually([] { return fakecuda_calls("cuEventQuery") >= 1; }));
  const auto opened = fixture.importer().Open(request);  // Closing it waits for the device.
  CHECK(opened.ok());
  fakecuda_release();
  CHECK(waiting.get().ok());
}

TEST_CASE("a wait for an event can be ended") {
  Fixture fixture;
  fakecuda_hold();
  const RecordedEvent event;
  std::stop_source stop;
  const std::string uuid = fixture.uuid();
  auto waiting = std::async(std::launch::async, [&] {
    return fixture.importer().AwaitEvent(uuid, event.get(), stop.get_token());
  });
  CHECK(test::Eventually([] { return fakecuda_calls("cuEventQuery") >= 1; }));
  stop.request_stop();
  CHECK(absl::IsCancelled(waiting.get()));
  fakecuda_release();
}

TEST_CASE("a wait for an event has the error of the work before it") {
  Fixture fixture;
  const RecordedEvent event;
  fakecuda_set("FAKECUDA_FAIL", "cuEventQuery:1:700");
  CheckRefused(fixture.importer().AwaitEvent(fixture.uuid(), event.get(), {}),
               absl::StatusCode::kFailedPrecondition, Reason::kDeviceFailed,
               {fixture.uuid().c_str(), "cuEventQuery: CUDA_ERROR_ILLEGAL_ADDRESS (700)"});
}

TEST_CASE("what is no event is told so") {
  Fixture fixture;
  int no_event = 0;
  CheckRefused(fixture.importer().AwaitEvent(fixture.uuid(), &no_event, {}),
               absl::StatusCode::kInternal, Reason::kDevice, {"CUDA_ERROR_INVALID_HANDLE (400)"});
}

TEST_CASE("regions open and close, and events are waited for, while a graph is captured") {
  Fixture fixture;
  const Owner owner = fixture.MakeOwner();
  const ImportRequest request = fixture.Request(owner);
  const RecordedEvent event;
  fakecuda_set("FAKECUDA_CAPTURING", "1");
  CHECK(fixture.importer().Open(request).ok());
  CHECK(fakecuda_live("import") == 0);
  CHECK(fixture.importer().AwaitEvent(request.device_uuid, event.get(), {}).ok());
  // The thread's own calls are what they were.
  CHECK(cuEventQuery(static_cast<Event>(event.get())) == Result::kStreamCaptureUnsupported);
}

TEST_CASE("the caller's context is current after every call, as it was before") {
  Fixture fixture("2");
  const Owner owner = fixture.MakeOwner();
  const ImportRequest request = fixture.Request(owner);
  const RecordedEvent event;
  Context context = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&context, 1) == Result::kSuccess);
  REQUIRE(cuCtxPushCurrent_v2(context) == Result::kSuccess);

  CHECK(fixture.importer().Open(request).ok());  // And closed.
  CHECK(fixture.importer().AwaitEvent(request.device_uuid, event.get(), {}).ok());
  int no_event = 0;
  CHECK_FALSE(fixture.importer().AwaitEvent(request.device_uuid, &no_event, {}).ok());

  Context current = nullptr;
  CHECK(cuCtxPopCurrent_v2(&current) == Result::kSuccess);
  CHECK(current == context);
  CHECK(cuDevicePrimaryCtxRelease_v2(1) == Result::kSuccess);
}

}  // namespace
}  // namespace kvpool::cuda
