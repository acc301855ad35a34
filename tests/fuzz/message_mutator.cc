#include "tests/fuzz/message_mutator.h"

#include <memory>
#include <string>
#include <vector>

#include <google/protobuf/stubs/logging.h>

#include "tests/integration/hostile/random_message.h"
#include "tests/support/random.h"

// libFuzzer's own, of bytes.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace kvpool::test {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

// Tries to make a change that fits.
constexpr int kTries = 8;

// Texts of which fields are made: the names that requests_fuzzer.cc gives a meaning.
const std::vector<std::string>& Words() {
  static const auto& words =
      *new std::vector<std::string>{"p", "q", "s0", "s1", "s2", "host", "bf16", "fp8_e4m3", "leaf"};
  return words;
}

size_t Serialize(const Message& message, uint8_t* data, size_t max_size) {
  const size_t size = message.ByteSizeLong();
  if (size > max_size || !message.SerializePartialToArray(data, static_cast<int>(max_size))) {
    return 0;
  }
  return size;
}

class Mutation {
 public:
  explicit Mutation(Random& random) : random_(random) {}

  void Apply(Message& message) {
    std::vector<Message*> all;
    Collect(message, all);
    // The message itself, whose entries are what happens, in half of the cases.
    Message& target =
        random_.OneIn(3) ? message : *all[random_.Below(static_cast<uint32_t>(all.size()))];
    const FieldDescriptor* field = AnyField(target);
    if (field == nullptr) return;
    if (field->is_repeated()) {
      ChangeList(target, *field);
    } else {
      ChangeField(target, *field);
    }
  }

 private:
  int AnyPlace(int count) { return static_cast<int>(random_.Below(static_cast<uint32_t>(count))); }

  static void Collect(Message& message, std::vector<Message*>& all) {
    all.push_back(&message);
    const Reflection& reflection = *message.GetReflection();
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      if (!field->is_repeated()) {
        Collect(*reflection.MutableMessage(&message, field), all);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        Collect(*reflection.MutableRepeatedMessage(&message, field, i), all);
      }
    }
  }

  const FieldDescriptor* AnyField(const Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    if (type.field_count() == 0) return nullptr;
    const FieldDescriptor* field = type.field(AnyPlace(type.field_count()));
    // Mostly the one that is set: another takes its place.
    const OneofDescriptor* oneof = field->real_containing_oneof();
    if (oneof == nullptr || random_.OneIn(4)) return field;
    const FieldDescriptor* set = message.GetReflection()->GetOneofFieldDescriptor(message, oneof);
    return set == nullptr ? field : set;
  }

  // Gives `target` the field that a random message of its type has, or one more entry of the list.
  void TakeRandom(Message& target, const FieldDescriptor& field) {
    const std::unique_ptr<Message> other(target.New());
    const Reflection& reflection = *target.GetReflection();
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message& made = field.is_repeated() ? *reflection.AddMessage(other.get(), &field)
                                          : *reflection.MutableMessage(other.get(), &field);
      FillOne(made);
    } else {
      FillAtRandom(*other, Words(), random_);
      std::vector<const FieldDescriptor*> fields;
      reflection.ListFields(*other, &fields);
      for (const FieldDescriptor* each : fields) {
        if (each != &field) reflection.ClearField(other.get(), each);
      }
    }
    if (!field.is_repeated() && field.real_containing_oneof() == nullptr) {
      reflection.ClearField(&target, &field);
    }
    target.MergeFrom(*other);
  }

  // Of a message that is a choice of several, a choice at random.
  void FillOne(Message& message) {
    const Descriptor& type = *message.GetDescriptor();
    const bool is_choice = type.real_oneof_decl_count() == 1 &&
                           type.oneof_decl(0)->field_count() == type.field_count();
    if (!is_choice) return FillAtRandom(message, Words(), random_);
    const FieldDescriptor* field = type.field(AnyPlace(type.field_count()));
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      FillAtRandom(*message.GetReflection()->MutableMessage(&message, field), Words(), random_);
    }
  }

  void ChangeList(Message& target, const FieldDescriptor& field) {
    const Reflection& reflection = *target.GetReflection();
    const int size = reflection.FieldSize(target, &field);
    if (size == 0 || random_.OneIn(3)) return TakeRandom(target, field);
    const int place = AnyPlace(size);
    switch (random_.Below(3)) {
      case 0:
        reflection.SwapElements(&target, &field, place, size - 1);
        return reflection.RemoveLast(&target, &field);
      case 1:
        return reflection.SwapElements(&target, &field, place, AnyPlace(size));
      default: {
        if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return TakeRandom(target, field);
        const std::unique_ptr<Message> copy(
            reflection.GetRepeatedMessage(target, &field, place).New());
        copy->CopyFrom(reflection.GetRepeatedMessage(target, &field, place));
        return reflection.AddMessage(&target, &field)->CopyFrom(*copy);
      }
    }
  }

  void ChangeField(Message& target, const FieldDescriptor& field) {
    const Reflection& reflection = *target.GetReflection();
    if (reflection.HasField(target, &field) && random_.OneIn(6)) {
      return reflection.ClearField(&target, &field);
    }
    if (random_.OneIn(2)) return TakeRandom(target, field);
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT32:
        return reflection.SetUInt32(&target, &field, Changed(reflection.GetUInt32(target, &field)));
      case FieldDescriptor::CPPTYPE_UINT64:
        return reflection.SetUInt64(&target, &field, Changed(reflection.GetUInt64(target, &field)));
      case FieldDescriptor::CPPTYPE_STRING:
        return reflection.SetString(&target, &field, Changed(reflection.GetString(target, &field)));
      default:
        return TakeRandom(target, field);
    }
  }

  template <typename Number>
  Number Changed(Number number) {
    if (random_.OneIn(2)) return number + 1 - 2 * random_.Below(2);
    LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(&number), sizeof(number), sizeof(number));
    return number;
  }

  static std::string Changed(std::string text) {
    const size_t size = text.size();
    text.resize(size + 16);
    text.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(text.data()), size, text.size()));
    return text;
  }

  Random& random_;
};

}  // namespace

size_t MutateMessage(Message& message, uint8_t* data, size_t size, size_t max_size,
                     unsigned int seed) {
  // It tells of each text that is none.
  static const auto silenced = google::protobuf::SetLogHandler(nullptr);
  static_cast<void>(silenced);
  Random random(seed);
  const std::string before(reinterpret_cast<const char*>(data), size);
  for (int i = 0; i < kTries; ++i) {
    if (!message.ParsePartialFromString(before)) message.Clear();
    Mutation(random).Apply(message);
    const size_t changed = Serialize(message, data, max_size);
    // Texts may have become none, which ends a message before anybody looks at it.
    if (changed > 0 && message.ParsePartialFromArray(data, static_cast<int>(changed))) {
      return changed;
    }
  }
  before.copy(reinterpret_cast<char*>(data), size);
  return size;
}

size_t CrossMessages(Message& message, const uint8_t* first, size_t first_size,
                     const uint8_t* second, size_t second_size, uint8_t* out, size_t max_size) {
  if (!message.ParsePartialFromArray(first, static_cast<int>(first_size))) message.Clear();
  const std::unique_ptr<Message> other(message.New());
  if (other->ParsePartialFromArray(second, static_cast<int>(second_size))) {
    message.MergeFrom(*other);
  }
  return Serialize(message, out, max_size);
}

}  // namespace kvpool::test
