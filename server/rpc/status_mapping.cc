#include "server/rpc/status_mapping.h"

#include <cstdint>

#include "core/check.h"
#include "core/error.h"
#include "core/utf8.h"

namespace kvpool::server {
namespace {

constexpr char kDetailUrl[] = "type.googleapis.com/kvpool.v1.ErrorDetail";
constexpr absl::string_view kCut = "...";

// absl and gRPC both use the numbers of `google.rpc.Code`.
static_assert(static_cast<int>(absl::StatusCode::kUnauthenticated) ==
              static_cast<int>(grpc::StatusCode::UNAUTHENTICATED));
static_assert(static_cast<int>(absl::StatusCode::kFailedPrecondition) ==
              static_cast<int>(grpc::StatusCode::FAILED_PRECONDITION));
static_assert(static_cast<int>(Reason::kDeviceFailed) ==
              static_cast<int>(v1::ErrorDetail::REASON_DEVICE_FAILED));

bool IsControl(absl::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return first == 0xC2 && static_cast<uint8_t>(character[1]) < 0xA0;  // U+0080 to U+009F.
}

}  // namespace

std::string SafeMessage(absl::string_view message) {
  std::string safe;
  size_t cut_at = 0;  // Where "..." still fits.
  while (!message.empty()) {
    const size_t size = Utf8CharacterSize(message);
    const absl::string_view character = message.substr(0, size == 0 ? 1 : size);
    message.remove_prefix(character.size());
    const bool is_shown = size != 0 && !IsControl(character);
    const absl::string_view shown = is_shown ? character : absl::string_view("?");
    if (safe.size() + kCut.size() <= kMaxErrorMessageBytes) cut_at = safe.size();
    if (safe.size() + shown.size() > kMaxErrorMessageBytes) {
      safe.resize(cut_at);
      safe.append(kCut.data(), kCut.size());
      return safe;
    }
    safe.append(shown.data(), shown.size());
  }
  return safe;
}

v1::ErrorDetail ToErrorDetail(const absl::Status& status) {
  const ErrorDetail detail = GetErrorDetail(status);
  v1::ErrorDetail message;
  message.set_reason(static_cast<v1::ErrorDetail::Reason>(detail.reason));
  message.set_index(detail.index);
  message.set_block_id(detail.block_id);
  message.set_available(detail.available);
  return message;
}

internal::Status ToWireStatus(const absl::Status& status) {
  KVPOOL_CHECK(!status.ok());
  internal::Status wire;
  wire.set_code(static_cast<int>(status.code()));
  wire.set_message(SafeMessage(status.message()));
  google::protobuf::Any* any = wire.add_details();
  any->set_type_url(kDetailUrl);
  any->set_value(ToErrorDetail(status).SerializeAsString());
  return wire;
}

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const internal::Status details = ToWireStatus(status);
  return {static_cast<grpc::StatusCode>(status.code()), details.message(),
          details.SerializeAsString()};
}

}  // namespace kvpool::server
