#include "client/describe_side.h"

#include <optional>

#include "absl/strings/str_cat.h"

#include "client/convert.h"

namespace kvpool::client {
namespace {

struct ElementType {
  uint8_t code = 0;
  uint8_t bytes = 0;
};

// Nothing for formats whose elements are not a tensor's.
std::optional<ElementType> ElementOf(Dtype dtype) {
  switch (dtype) {
    case Dtype::kFp32:
      return ElementType{.code = SideTensor::kFloat, .bytes = 4};
    case Dtype::kFp16:
      return ElementType{.code = SideTensor::kFloat, .bytes = 2};
    case Dtype::kBf16:
      return ElementType{.code = SideTensor::kBfloat, .bytes = 2};
    case Dtype::kFp8:
      return ElementType{.code = SideTensor::kE4m3fn, .bytes = 1};
    default:
      return std::nullopt;
  }
}

// Whether the side's bytes are `tokens` tokens of its heads. Divides, so that nothing overflows.
bool IsWhole(const SideLayout& side, uint64_t tokens, uint64_t element_bytes) {
  return side.num_heads > 0 && side.head_dim > 0 && side.block_elements % side.head_dim == 0 &&
         side.block_elements / side.head_dim == tokens * side.num_heads &&
         side.data_bytes % element_bytes == 0 &&
         side.data_bytes / element_bytes == side.block_elements &&
         side.data_bytes <= side.block_bytes;
}

int64_t Signed(uint64_t value) { return static_cast<int64_t>(value); }

}  // namespace

absl::StatusOr<SideTensor> DescribeSide(const PoolLayout& layout, const SideLayout& side) {
  SideTensor tensor;
  const std::optional<ElementType> element = ElementOf(side.dtype);
  if (!element.has_value()) {
    tensor.shape = {Signed(layout.num_blocks), Signed(side.block_bytes)};
    tensor.strides = {Signed(side.stride_bytes), 1};
    return tensor;
  }
  const uint64_t tokens = layout.spec.block_size.value_or(kDefaultBlockSize);
  if (!IsWhole(side, tokens, element->bytes)) {
    return Nonsense(absl::StrCat(side.data_bytes, " of ", side.block_bytes, " bytes a block for ",
                                 tokens, " tokens of ", side.num_heads, " heads of ", side.head_dim,
                                 " elements in ", DtypeName(side.dtype)));
  }
  if (side.offset_bytes % element->bytes != 0 || side.stride_bytes % element->bytes != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "blocks begin at ", side.offset_bytes, " bytes and every ", side.stride_bytes,
        ", which are not whole elements of ", DtypeName(side.dtype), ": no tensor has them"));
  }
  tensor.type_code = element->code;
  tensor.type_bits = static_cast<uint8_t>(8 * element->bytes);
  const uint64_t head_elements = side.head_dim;
  const uint64_t token_elements = side.num_heads * head_elements;
  tensor.shape = {Signed(layout.num_blocks), Signed(tokens), Signed(side.num_heads),
                  Signed(side.head_dim)};
  tensor.strides = {Signed(side.stride_bytes / element->bytes), Signed(token_elements),
                    Signed(head_elements), 1};
  return tensor;
}

}  // namespace kvpool::client
