#pragma once

#include <initializer_list>
#include <string>

namespace kvpool::test {

// How many of the log's lines have each of the texts.
size_t CountLines(const std::string& log, std::initializer_list<std::string> texts);

// How many of them are of level warning or above.
size_t CountWarnings(const std::string& log);

}  // namespace kvpool::test
