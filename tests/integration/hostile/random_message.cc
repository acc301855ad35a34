#include "tests/integration/hostile/random_message.h"

#include <array>
#include <cstdint>
#include <limits>

#include "tests/integration/hostile/wire_bytes.h"

namespace kvpool::test {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

uint64_t RandomNumber(Random& random) {
  constexpr std::array<uint64_t, 9> kEdges{
      0, 1, 2, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x100000000, 0x7FFFFFFFFFFFFFFF, UINT64_MAX};
  switch (random.Below(3)) {
    case 0:
      return kEdges[random.Below(kEdges.size())];
    case 1:
      return random.Below(64);
    default:
      return random.Next() >> random.Below(64);
  }
}

double RandomFraction(Random& random) {
  constexpr std::array<double, 6> kEdges{0.0,
                                         -1.0,
                                         0.5,
                                         std::numeric_limits<double>::infinity(),
                                         std::numeric_limits<double>::quiet_NaN(),
                                         1e308};
  return kEdges[random.Below(kEdges.size())];
}

std::string RandomText(const std::vector<std::string>& words, Random& random) {
  switch (random.Below(6)) {
    case 0:
      return RandomBytes(random, random.Below(80));
    case 1:
      return std::string(1 + random.Below(5'000), 'x');
    case 2:
      return "line\nlevel=critical event=forged\r\x1b[2J\x7f";
    case 3:
      return "";
    default:
      return words.empty() ? "p" : words[random.Below(static_cast<uint32_t>(words.size()))];
  }
}

class Filler {
 public:
  Filler(const std::vector<std::string>& words, Random& random) : words_(words), random_(random) {}

  void Fill(Message& message, int depth) {
    for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
      const FieldDescriptor& field = *message.GetDescriptor()->field(i);
      if (random_.OneIn(4)) continue;
      // Most lists are short, as those of few entries go on to be looked at.
      const uint32_t count =
          !field.is_repeated() ? 1 : random_.Below(random_.OneIn(20) ? 3'000 : 4);
      for (uint32_t entry = 0; entry < count; ++entry) Set(message, field, depth);
    }
  }

 private:
  template <typename Value>
  using Setter = void (Reflection::*)(Message*, const FieldDescriptor*, Value) const;

  template <typename Value>
  static void Put(Message& message, const FieldDescriptor& field, Setter<Value> set,
                  Setter<Value> add, Value value) {
    const Reflection& reflection = *message.GetReflection();
    (reflection.*(field.is_repeated() ? add : set))(&message, &field, std::move(value));
  }

  void Set(Message& message, const FieldDescriptor& field, int depth) {
    const uint64_t number = RandomNumber(random_);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_INT32:
        return Put<int32_t>(message, field, &Reflection::SetInt32, &Reflection::AddInt32,
                            static_cast<int32_t>(number));
      case FieldDescriptor::CPPTYPE_INT64:
        return Put<int64_t>(message, field, &Reflection::SetInt64, &Reflection::AddInt64,
                            static_cast<int64_t>(number));
      case FieldDescriptor::CPPTYPE_UINT32:
        return Put<uint32_t>(message, field, &Reflection::SetUInt32, &Reflection::AddUInt32,
                             static_cast<uint32_t>(number));
      case FieldDescriptor::CPPTYPE_UINT64:
        return Put<uint64_t>(message, field, &Reflection::SetUInt64, &Reflection::AddUInt64,
                             number);
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Put<double>(message, field, &Reflection::SetDouble, &Reflection::AddDouble,
                           RandomFraction(random_));
      case FieldDescriptor::CPPTYPE_FLOAT:
        return Put<float>(message, field, &Reflection::SetFloat, &Reflection::AddFloat,
                          static_cast<float>(RandomFraction(random_)));
      case FieldDescriptor::CPPTYPE_BOOL:
        return Put<bool>(message, field, &Reflection::SetBool, &Reflection::AddBool,
                         (number & 1) != 0);
      case FieldDescriptor::CPPTYPE_ENUM:
        return Put<int>(message, field, &Reflection::SetEnumValue, &Reflection::AddEnumValue,
                        static_cast<int>(number));
      case FieldDescriptor::CPPTYPE_STRING:
        return Put<std::string>(message, field, &Reflection::SetString, &Reflection::AddString,
                                RandomText(words_, random_));
      case FieldDescriptor::CPPTYPE_MESSAGE:
        if (depth == 0) return;
        const Reflection& reflection = *message.GetReflection();
        return Fill(field.is_repeated() ? *reflection.AddMessage(&message, &field)
                                        : *reflection.MutableMessage(&message, &field),
                    depth - 1);
    }
  }

  const std::vector<std::string>& words_;
  Random& random_;
};

}  // namespace

void FillAtRandom(google::protobuf::Message& message, const std::vector<std::string>& words,
                  Random& random) {
  constexpr int kMaxDepth = 4;
  Filler(words, random).Fill(message, kMaxDepth);
}

}  // namespace kvpool::test
