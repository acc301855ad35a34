#include "tests/model/ledger/model_keys.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace kvpool::test {

PrefixKey MakeKey(char space, absl::string_view text) {
  PrefixKey key;
  key.bytes[0] = static_cast<uint8_t>(space);
  key.bytes[1] = static_cast<uint8_t>(text.size());
  std::memcpy(key.bytes.data() + 2, text.data(), text.size());
  return key;
}

PrefixKeys MakePrefix(char space, const std::string& parent, const std::string& text) {
  PrefixKeys prefix;
  prefix.root = MakeKey(space, "");
  if (!parent.empty()) prefix.parent = MakeKey(space, parent);
  for (size_t i = 1; i <= text.size(); ++i) {
    prefix.blocks.push_back(MakeKey(space, parent + text.substr(0, i)));
  }
  return prefix;
}

char SpaceOf(const PrefixKey& key) { return static_cast<char>(key.bytes[0]); }

std::string TextOf(const PrefixKey& key) {
  return {reinterpret_cast<const char*>(key.bytes.data()) + 2, key.bytes[1]};
}

std::string ToText(const PrefixKey& key) {
  return absl::StrCat(std::string(1, SpaceOf(key)), ":", TextOf(key));
}

std::string ToText(const PrefixKeys& prefix) {
  std::string text(1, SpaceOf(prefix.root));
  absl::StrAppend(&text, ":", prefix.parent.has_value() ? ToText(*prefix.parent) : "");
  for (const PrefixKey& key : prefix.blocks) absl::StrAppend(&text, "+", ToText(key));
  return text;
}

}  // namespace kvpool::test
