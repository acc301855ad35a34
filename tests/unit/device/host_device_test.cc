#include "core/device/host_device.h"

#include <algorithm>
#include <array>
#include <deque>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "core/error.h"
#include "tests/support/catch.h"
#include "tests/support/fake_device.h"
#include "tests/support/open_fds.h"
#include "tests/support/outcome.h"

namespace kvpool {
namespace {

// Keeps work until it is told to run it.
class QueuedExecutor final : public Executor {
 public:
  void Post(absl::AnyInvocable<void()> work) override { queue_.push_back(std::move(work)); }
  void RunAll() {
    for (; !queue_.empty(); queue_.pop_front()) queue_.front()();
  }
  size_t size() const { return queue_.size(); }

 private:
  std::deque<absl::AnyInvocable<void()>> queue_;
};

// Reads a whole region through the device.
std::vector<std::byte> ReadAll(Device& device, const Region& region) {
  std::vector<std::byte> bytes(region.size_bytes());
  const std::array<Extent, 1> whole{{{.offset_bytes = 0, .size_bytes = region.size_bytes()}}};
  test::Outcome outcome;
  device.Read(region, whole, bytes, outcome.Take());
  REQUIRE(outcome.ok());
  return bytes;
}

TEST_CASE("the host says what it is") {
  InlineExecutor executor;
  const HostDevice device(executor);
  CHECK(device.info().kind == DeviceKind::kHost);
  CHECK(device.info().uuid.empty());
  CHECK_FALSE(device.info().name.empty());
}

TEST_CASE("the host's memory is what is there and what is available") {
  InlineExecutor executor;
  HostDevice device(executor);
  const auto memory = device.QueryMemory();
  REQUIRE(memory.ok());
  CHECK(memory->free_bytes > 0);
  CHECK(memory->free_bytes <= memory->total_bytes);
}

TEST_CASE("a region that has no room is refused with both numbers and leaves nothing") {
  InlineExecutor executor;
  HostDevice device(executor);
  const uint64_t size = device.QueryMemory().value().total_bytes + 1;
  const ptrdiff_t before = test::OpenFdCount();
  const auto region = device.Allocate(size, "too-big");
  REQUIRE(region.status().code() == absl::StatusCode::kResourceExhausted);
  CHECK(test::OpenFdCount() == before);

  const std::string message(region.status().message());
  CAPTURE(message);
  CHECK(message.find(absl::StrCat("needs ", size, " bytes")) != std::string::npos);
  const size_t comma = message.rfind(", ");
  const size_t end = message.find(" are available");
  REQUIRE(comma != std::string::npos);
  REQUIRE(end != std::string::npos);
  uint64_t available = 0;
  REQUIRE(absl::SimpleAtoi(message.substr(comma + 2, end - comma - 2), &available));
  CHECK(available > 0);
  CHECK(available < size);
}

TEST_CASE("sizes near the end of 64 bits are refused, not wrapped") {
  InlineExecutor executor;
  HostDevice device(executor);
  const uint64_t size = GENERATE(~uint64_t{0}, ~uint64_t{0} - 4095, uint64_t{1} << 63);
  CHECK(device.Allocate(size, "test").status().code() == absl::StatusCode::kResourceExhausted);
}

TEST_CASE("a host region of zero bytes is an invalid argument") {
  InlineExecutor executor;
  HostDevice device(executor);
  CHECK(device.Allocate(0, "test").status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("each operation is one piece of work that takes effect when it is run") {
  QueuedExecutor executor;
  HostDevice device(executor);
  auto region = device.Allocate(8192, "test");
  REQUIRE(region.ok());
  const std::array<Extent, 2> extents{
      {{.offset_bytes = 0, .size_bytes = 16}, {.offset_bytes = 4096, .size_bytes = 16}}};
  const std::array<CopyExtent, 1> copies{
      {{.source_bytes = 0, .destination_bytes = 64, .size_bytes = 16}}};
  const std::vector<std::byte> written(32, std::byte{7});
  std::vector<std::byte> read(32);
  std::array<test::Outcome, 4> outcomes;
  device.Fill(**region, extents, 0xFF, outcomes[0].Take());
  device.Copy(**region, **region, copies, outcomes[1].Take());
  device.Write(**region, extents, written, outcomes[2].Take());
  device.Read(**region, extents, read, outcomes[3].Take());
  CHECK(executor.size() == 4);
  for (const test::Outcome& outcome : outcomes) CHECK_FALSE(outcome.is_done());
  CHECK(read == std::vector<std::byte>(32));
  executor.RunAll();
  for (const test::Outcome& outcome : outcomes) CHECK(outcome.ok());
  CHECK(read == written);
}

// The rest is what every Device does; the fake one, which other tests rely on, is held to it too.

TEST_CASE("a device moves exactly the bytes of its extents") {
  InlineExecutor executor;
  HostDevice host(executor);
  test::FakeDevice fake;
  const bool is_host = GENERATE(true, false);
  Device* const device = is_host ? static_cast<Device*>(&host) : &fake;
  CAPTURE(device->info().name);
  constexpr size_t kSize = 10'001;
  auto region = device->Allocate(kSize, "test");
  auto other = device->Allocate(kSize, "other");
  REQUIRE(region.ok());
  REQUIRE(other.ok());
  std::vector<std::byte> expected(kSize);
  CHECK(ReadAll(*device, **region) == expected);

  const std::array<Extent, 4> extents{{{.offset_bytes = 10'000, .size_bytes = 1},
                                       {.offset_bytes = 0, .size_bytes = 3},
                                       {.offset_bytes = kSize, .size_bytes = 0},
                                       {.offset_bytes = 5'000, .size_bytes = 100}}};
  test::Outcome filled;
  device->Fill(**region, extents, 0xFF, filled.Take());
  CHECK(filled.ok());
  for (const Extent& extent : extents) {
    std::fill_n(expected.begin() + static_cast<ptrdiff_t>(extent.offset_bytes), extent.size_bytes,
                std::byte{0xFF});
  }
  CHECK(ReadAll(*device, **region) == expected);

  std::vector<std::byte> data(104);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i + 1);
  test::Outcome written;
  device->Write(**region, extents, data, written.Take());
  CHECK(written.ok());
  expected[10'000] = data[0];
  std::copy_n(data.begin() + 1, 3, expected.begin());
  std::copy_n(data.begin() + 4, 100, expected.begin() + 5'000);
  CHECK(ReadAll(*device, **region) == expected);

  std::vector<std::byte> read(data.size());
  test::Outcome read_back;
  device->Read(**region, extents, read, read_back.Take());
  CHECK(read_back.ok());
  CHECK(read == data);

  const std::array<CopyExtent, 2> copies{
      {{.source_bytes = 5'000, .destination_bytes = 1, .size_bytes = 100},
       {.source_bytes = 10'000, .destination_bytes = 10'000, .size_bytes = 1}}};
  test::Outcome copied;
  device->Copy(**region, **other, copies, copied.Take());
  CHECK(copied.ok());
  std::vector<std::byte> expected_other(kSize);
  std::copy_n(expected.begin() + 5'000, 100, expected_other.begin() + 1);
  expected_other[10'000] = expected[10'000];
  CHECK(ReadAll(*device, **other) == expected_other);
  CHECK(ReadAll(*device, **region) == expected);
}

TEST_CASE("a device's operation on no extents succeeds") {
  InlineExecutor executor;
  HostDevice host(executor);
  test::FakeDevice fake;
  const bool is_host = GENERATE(true, false);
  Device* const device = is_host ? static_cast<Device*>(&host) : &fake;
  auto region = device->Allocate(64, "test");
  REQUIRE(region.ok());
  std::array<test::Outcome, 4> outcomes;
  device->Fill(**region, {}, 1, outcomes[0].Take());
  device->Copy(**region, **region, {}, outcomes[1].Take());
  device->Read(**region, {}, {}, outcomes[2].Take());
  device->Write(**region, {}, {}, outcomes[3].Take());
  for (const test::Outcome& outcome : outcomes) CHECK(outcome.ok());
}

TEST_CASE("host memory is copied between two host devices") {
  InlineExecutor executor;
  HostDevice first(executor);
  HostDevice second(executor);
  auto source = first.Allocate(64, "source");
  auto destination = second.Allocate(64, "destination");
  REQUIRE(source.ok());
  REQUIRE(destination.ok());
  const std::array<Extent, 1> all{{{.offset_bytes = 0, .size_bytes = 64}}};
  const std::array<CopyExtent, 1> copy{
      {{.source_bytes = 0, .destination_bytes = 0, .size_bytes = 64}}};
  test::Outcome filled;
  test::Outcome copied;
  first.Fill(**source, all, 0x11, filled.Take());
  first.Copy(**source, **destination, copy, copied.Take());
  CHECK(copied.ok());
  CHECK(ReadAll(second, **destination) == std::vector<std::byte>(64, std::byte{0x11}));
}

TEST_CASE("copying host memory to what the host cannot touch is a failed precondition") {
  InlineExecutor executor;
  HostDevice host(executor);
  test::FakeDevice other_kind;
  auto source = host.Allocate(64, "source");
  auto destination = other_kind.Allocate(64, "destination");
  REQUIRE(source.ok());
  REQUIRE(destination.ok());
  const std::array<CopyExtent, 1> copy{
      {{.source_bytes = 0, .destination_bytes = 0, .size_bytes = 64}}};
  test::Outcome outcome;
  host.Copy(**source, **destination, copy, outcome.Take());
  REQUIRE(outcome.is_done());
  CHECK(outcome.status().code() == absl::StatusCode::kFailedPrecondition);
  CHECK(GetErrorDetail(outcome.status()).reason == Reason::kDevice);
}

}  // namespace
}  // namespace kvpool
