#pragma once

#include <string>

namespace kvpool::test {

// Where tests' pools are: the environment's KVPOOL_TEST_DEVICE, an entry of PoolSpec::devices such
// as "cuda:0", empty where there is none: then on the host.
//
// With one, the CUDA driver of this process and of those that it starts is the fake one, with
// two GPUs for them alone, unless KVPOOL_LIBCUDA and FAKECUDA_DIR name others.
const std::string& TestDevice();

// The part of a PoolSpec's JSON that says so, such as R"(, "devices": ["cuda:0"])"; empty for the
// host.
std::string DevicesJson();

}  // namespace kvpool::test
