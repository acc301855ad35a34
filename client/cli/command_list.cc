#include <array>

#include "client/cli/block_commands.h"
#include "client/cli/command.h"
#include "client/cli/daemon_commands.h"
#include "client/cli/doctor/doctor_command.h"
#include "client/cli/pool_commands.h"
#include "client/cli/prefix_commands.h"
#include "client/cli/replay_command.h"
#include "client/cli/session_commands.h"
#include "client/cli/watch_command.h"

namespace kvpool::cli {
namespace {

constexpr absl::string_view kPlanOptions[] = {"spec", "bytes"};
constexpr absl::string_view kSpecOptions[] = {"spec"};
constexpr absl::string_view kBlocksOptions[] = {"first", "count"};
constexpr absl::string_view kChecksumOptions[] = {"layer", "boundary", "shard", "tag"};
constexpr absl::string_view kPrefixOptions[] = {"tokens", "model", "adapter", "salt"};
constexpr absl::string_view kWatchOptions[] = {"after", "epoch", "with_tokens"};
constexpr absl::string_view kTerminateOptions[] = {"release_claims"};
constexpr absl::string_view kReplayOptions[] = {"pool",         "workers", "speed",  "capacity",
                                                "simulate",     "policy",  "csv",    "done",
                                                "block_tokens", "socket",  "timeout"};

// What usage shows of options that cannot be left out.
constexpr absl::string_view kNeedsSpec = "--spec=JSON|@FILE";

// An answer takes the daemon microseconds; a big listing, seconds.
constexpr absl::Duration kTimeout = absl::Seconds(10);
// Allocating takes a quarter of a second a GiB, summing about as long.
constexpr absl::Duration kLongTimeout = absl::Minutes(10);

constexpr absl::string_view kStatusHelp =
    "Shows what the daemon is and a line for each pool. With --json, what GetDaemon answers;\n"
    "`kvpoolctl pools --json` has the pools.\n"
    "\n"
    "The reclaim proof is how the daemon knows that a dead worker's writes have ended: pidfd, or\n"
    "only a delay. A warning is what its start-up checks found.\n";

constexpr absl::string_view kHealthHelp =
    "Asks the daemon's health service. Prints SERVING and exits with 0, or prints what it is\n"
    "instead and exits with 1. Exits with 3 where no daemon answers.\n";

constexpr absl::string_view kDoctorHelp =
    "Looks for what keeps workers from using the daemon, or makes it worse than it could be: a\n"
    "line a check, with OK, WARN or FAIL, and what to do. It sees what its own process can: run "
    "it\n"
    "where the daemon runs, and once more where a worker does.\n"
    "\n"
    "Looked at are the daemon's state and its own warnings, the modes of the socket and of the\n"
    "directories above it, the GPUs here beside the daemon's, CUDA IPC, pids (those of the daemon\n"
    "and of a worker must differ for it, whatever containers they are in), how the daemon knows "
    "of\n"
    "the end of a worker, the limits of open files and locked memory, and free memory.\n"
    "\n"
    "Exits with 0 where nothing is FAIL, with 3 where no daemon answers, and else with 1.\n";

constexpr absl::string_view kPoolsHelp =
    "Shows a line for each pool or, with a POOL, all about that one: its states, its tenants and\n"
    "their limit, its geometry, and where each side of each layer lies in a shard.\n"
    "\n"
    "free + cached + held + quarantined are all the blocks there are. Cached blocks are findable\n"
    "and held by nobody: they are given out like free ones. Quarantined ones were let go, but a\n"
    "process may still be writing to them.\n";

constexpr absl::string_view kPlanHelp =
    "Computes what a pool of this geometry would be: how many blocks fit, and every offset,\n"
    "stride and size, in bytes. Asks no daemon and allocates nothing; a size by\n"
    "memory_utilization needs the device, and so the daemon.\n"
    "\n"
    "Block b of a side starts at OFFSET + b * STRIDE of each shard, and is BLOCK bytes long: DATA\n"
    "bytes of elements (token, head, element), then SCALES bytes of scales.\n"
    "\n"
    "  kvpoolctl plan --bytes=24GiB --spec='{\"num_layers\": 32, \"num_kv_heads\": 8,\n"
    "      \"head_dim\": 128, \"dtype\": \"fp8k_turbo4v\"}'\n";

constexpr absl::string_view kCreatePoolHelp =
    "Creates a pool. The spec is what `kvpoolctl plan` takes, with a name and a size:\n"
    "\n"
    "  kvpoolctl create-pool --spec='{\"name\": \"llama\", \"num_layers\": 32, \"num_kv_heads\": "
    "8,\n"
    "      \"head_dim\": 128, \"dtype\": \"bf16\", \"memory_bytes\": \"8589934592\"}'\n"
    "\n"
    "The answer comes when the memory is there.\n";

constexpr absl::string_view kDeletePoolHelp =
    "Deletes a pool and frees its memory. Refused while a session is open in it, or while a\n"
    "process that was given its memory may still have it mapped.\n";

constexpr absl::string_view kSessionsHelp =
    "Shows a line for each session, of one POOL or of all. A session is shown by the first eight\n"
    "characters of its id; the whole id is its worker's secret.\n"
    "\n"
    "A session is attached (to a stream of its worker's), unattached (it lives while calls\n"
    "come), closing (ended; its references are being dropped) or claiming (ended; its processes\n"
    "may still be writing).\n";

constexpr absl::string_view kSessionHelp =
    "Shows all about one session, and the ids of the blocks that it holds. ID is its id or the\n"
    "first eight or more characters of it, as listings show them.\n";

constexpr absl::string_view kTerminateHelp =
    "Ends a session as if its worker had died. Its references go at once; blocks that it was\n"
    "still writing stay quarantined until its processes are gone, or with --release_claims are\n"
    "free at once: that is for when you know that none of them writes any more. On a session\n"
    "that ended already, --release_claims ends the claims that it left.\n"
    "\n"
    "ID is its id or the first eight or more characters of it.\n"
    "\n"
    "The answer names the pool, the client and the process (as the daemon sees it) of what was\n"
    "ended.\n";

constexpr absl::string_view kBlockHelp =
    "Shows one block: its state, generation and references, the sessions that hold it and, where\n"
    "the daemon traces (KVPOOL_KV_TRACE=1 in its environment), what last happened to it.\n";

constexpr absl::string_view kBlocksHelp =
    "Shows a line for each block, without holders or history. All of them, or --count from\n"
    "--first on.\n";

constexpr absl::string_view kResetHelp =
    "Forgets what is findable in a pool, of one TENANT or of all: nobody finds it by prefix any\n"
    "more. Blocks that sessions hold stay held; the others become free. It is no barrier: what\n"
    "is published a moment later is findable. New weights need a new model_id, not a reset.\n";

constexpr absl::string_view kPrefixHelp =
    "Shows which blocks of the pool the prompt's tokens would find, in order, and holds none: the\n"
    "next moment may change it. What is looked in is the tenant of the socket, and the space of\n"
    "--model, --adapter and --salt. Opens a session for it, and closes it.\n"
    "\n"
    "  kvpoolctl prefix lookup llama --model=llama-3-8b --tokens=prompt.json\n";

constexpr absl::string_view kWatchHelp =
    "Shows what is findable in the pool, and then every change, a line each, until SIGINT. On a\n"
    "worker's socket it is the tenant's own; on an operator's, everybody's.\n"
    "\n"
    "A line begins with the change's number, or - for what was there before. With --json each "
    "line\n"
    "is a WatchPrefixesResponse (keys in base64). To go on where it ended, give the last number "
    "and\n"
    "the epoch of the snapshot's end:\n"
    "\n"
    "  kvpoolctl watch llama --epoch=EPOCH --after=NUMBER\n"
    "\n"
    "Exits with 0 at SIGINT, SIGTERM or the end of --timeout; with 1 where it was too slow and\n"
    "changes were lost.\n";

constexpr absl::string_view kChecksumHelp =
    "Sums what is in blocks: where two runs differ, it shows the first layer and region, or the\n"
    "block, that differs. BLOCKS is a list such as 0-15,20, in the order of the sequence.\n"
    "\n"
    "Without --layer: for each layer, K and V apart, and apart for the prefix that was reused and\n"
    "the suffix that was computed. --boundary is how many of BLOCKS, from the first listed on,\n"
    "are the prefix, whatever their ids: of 7,3,9 with --boundary=2 those are 7 and 3. With 0 all\n"
    "are suffix; with as many as are listed or more, and without it, all are prefix. A region\n"
    "without blocks is shown with sums of 0.\n"
    "\n"
    "With --layer: that layer, block by block. Formats whose elements are not decoded have a\n"
    "CRC32C of the raw bytes, and no sums.\n";

constexpr absl::string_view kReplayHelp =
    "Replays a trace of requests, and tells how many of their blocks were found in the prefix\n"
    "cache. TRACE has a JSON object a line, plain or compressed by xz, in Mooncake's format:\n"
    "timestamp in milliseconds, input_length and output_length in tokens, and hash_ids, one a\n"
    "block of 512 tokens. With --block_tokens=16 blocks have 16 tokens, and times are in seconds.\n"
    "Only blocks that the input fills are cached.\n"
    "\n"
    "With --pool, worker processes take the requests in their order: each acquires the blocks of\n"
    "its input and output in one call, publishes those of the input that were not found, and lets\n"
    "all go. The pool's block size plays no part. With --capacity, workers hold so much of the\n"
    "pool beside their requests that as many blocks stay cached, as in a simulation; the pool\n"
    "needs room for the longest request of each worker too. An eviction policy learns from times:\n"
    "it sees the trace's own where --speed and `kvpoold --clock_rate` are the same. Evicted\n"
    "blocks are those that are findable no more, whoever used the pool.\n"
    "\n"
    "--simulate runs the requests through the daemon's ledger, in this process and one after the\n"
    "other, once for each capacity and policy. A capacity counts the blocks left cached after a\n"
    "request (\"infinite\": as many as there are); those of the request itself come on top while\n"
    "it runs. Beside the policies stands the optimum: what could be found if the future were\n"
    "known.\n"
    "\n"
    "  kvpoolctl replay trace.jsonl.xz --pool=llama --workers=4\n"
    "  kvpoolctl replay trace.jsonl.xz --simulate --capacity=1000,10000,infinite\n";

constexpr std::array<Command, 17> kCommands = {{
    {"status",
     "",
     0,
     0,
     true,
     kTimeout,
     {},
     "what the daemon is, and its pools",
     kStatusHelp,
     RunStatus},
    {"health", "", 0, 0, true, kTimeout, {}, "whether the daemon serves", kHealthHelp, RunHealth},
    {"doctor",
     "",
     0,
     0,
     true,
     kTimeout,
     {},
     "what is wrong with the daemon, or here, and what to do",
     kDoctorHelp,
     RunDoctor},
    {"pools",
     "[POOL]",
     0,
     1,
     true,
     kTimeout,
     {},
     "the pools, or all about one",
     kPoolsHelp,
     RunPools},
    {"plan", "", 0, 0, false, kTimeout, kPlanOptions,
     "what a pool would be: blocks that fit, every stride; needs no daemon", kPlanHelp, RunPlan,
     false, kNeedsSpec},
    {"create-pool", "", 0, 0, true, kLongTimeout, kSpecOptions, "create a pool", kCreatePoolHelp,
     RunCreatePool, false, kNeedsSpec},
    {"delete-pool",
     "POOL",
     1,
     1,
     true,
     kLongTimeout,
     {},
     "delete a pool",
     kDeletePoolHelp,
     RunDeletePool},
    {"sessions", "[POOL]", 0, 1, true, kTimeout, {}, "the sessions", kSessionsHelp, RunSessions},
    {"session", "ID", 1, 1, true, kTimeout, {}, "all about one session", kSessionHelp, RunSession},
    {"terminate", "ID", 1, 1, true, kTimeout, kTerminateOptions, "end a session", kTerminateHelp,
     RunTerminate},
    {"block",
     "POOL ID",
     2,
     2,
     true,
     kTimeout,
     {},
     "one block: state, holders, history",
     kBlockHelp,
     RunBlock},
    {"blocks", "POOL", 1, 1, true, kTimeout, kBlocksOptions, "the states of blocks", kBlocksHelp,
     RunBlocks},
    {"reset",
     "POOL [TENANT]",
     1,
     2,
     true,
     kTimeout,
     {},
     "forget what is findable by prefix",
     kResetHelp,
     RunReset},
    {"prefix", "lookup POOL", 2, 2, true, kTimeout, kPrefixOptions,
     "what a prompt would find in the cache", kPrefixHelp, RunPrefix, false,
     "--tokens=FILE|- --model=ID"},
    {"watch", "POOL", 1, 1, true, absl::InfiniteDuration(), kWatchOptions,
     "follow what becomes findable, and what no more", kWatchHelp, RunWatch, true},
    {"checksum", "POOL BLOCKS", 2, 2, true, kLongTimeout, kChecksumOptions,
     "sums over what is in blocks", kChecksumHelp, RunChecksum},
    {"replay", "TRACE", 1, 1, false, kTimeout, kReplayOptions,
     "how much of a trace of requests the prefix cache finds", kReplayHelp, RunReplay, false,
     "(--pool=POOL | --simulate --capacity=N[,N...])"},
}};

}  // namespace

std::span<const Command> Commands() { return kCommands; }

}  // namespace kvpool::cli
