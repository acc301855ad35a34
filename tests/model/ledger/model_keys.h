#pragma once

#include <string>

#include "absl/strings/string_view.h"

#include "core/ledger/prefix/prefix_hasher.h"

namespace kvpool::test {

// Prefix keys that people can read: a space, which is a letter, and text, a letter a block, in
// bytes that tell them apart. As with real ones, a key tells all that comes before its block.

// Requires that `text` is shorter than PrefixKey::kBytes - 1.
PrefixKey MakeKey(char space, absl::string_view text);
// Blocks of `text` after `parent` in that space.
PrefixKeys MakePrefix(char space, const std::string& parent, const std::string& text);

char SpaceOf(const PrefixKey& key);
std::string TextOf(const PrefixKey& key);

// `A:ab` a key; `A:A:ab+A:abc+A:abcd` two blocks in space A after two others.
std::string ToText(const PrefixKey& key);
std::string ToText(const PrefixKeys& prefix);

}  // namespace kvpool::test
