#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace kvpool::test {

// The calls that an exhaustive run makes, as small as they can be: which call, whose (session A or
// B), and on which block or how.
enum class Op : uint8_t {
  kOpen,
  kOpenGuaranteed,  // With a guarantee of two blocks.
  kJoin,            // B joins A.
  kAttach,
  kDetach,
  kClose,
  kTerminate,
  kTerminateReleasing,
  kGone,  // The session's process.
  kAlloc,
  kAllocZeroed,
  kAllocOrWait,
  kSwap,     // Releases the block and takes one, or waits.
  kAcquire,  // The prefix xy and no more.
  kAcquireOrWait,
  kIncRef,
  kIncRefStale,  // At another generation.
  kIncRefBare,   // Without a generation.
  kDecRef,
  kDecRefStale,
  kDecRefDone,
  kPublish,  // As x, or as the y after it.
  kLookup,
  kEvict,
  kEvictOne,
  kReset,  // Of A's tenant.
  kResetAll,
  kPinToRead,
  kPinToWrite,
  kUnpin,  // The granted pin that came first.
  kCancel,
  kFilled,
  kFillFailed,
  kAdvance,  // To when something is due.
  kReclaim,
  kRepeat,  // The last keyed call.
};

struct Letter {
  Op op{};
  uint8_t session = 0;
  uint8_t number = 0;  // A block, or a count, or 0.
  uint8_t depth = 0;   // Of kPublish: 0 as x, 1 as y after x.
};

inline constexpr uint32_t kBlocks = 3;
inline constexpr uint32_t kSessions = 2;

std::string ToText(const Letter& letter);
// A list of calls, one a line.
std::string ToText(const std::vector<Letter>& letters);

// All letters of these operations: each with every session, block and count that it can have.
std::vector<Letter> LettersOf(const std::vector<Op>& ops);

}  // namespace kvpool::test
