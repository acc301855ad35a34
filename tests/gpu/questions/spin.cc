#include "tests/gpu/questions/spin.h"

#include <array>

namespace kvpool::questions {
namespace {

// One thread. Of the same language and target as the product's kernels.
constexpr char kPtx[] = R"(.version 6.3
.target sm_75
.address_size 64

.visible .entry kvpool_spin(
	.param .u64 kvpool_spin_param_0,
	.param .u64 kvpool_spin_param_1
)
{
	.reg .pred 	%p<2>;
	.reg .b64 	%rd<8>;

	ld.param.u64 	%rd1, [kvpool_spin_param_0];
	ld.param.u64 	%rd2, [kvpool_spin_param_1];
	cvta.to.global.u64 	%rd3, %rd1;
	mov.u64 	%rd4, %globaltimer;

$L_again:
	mov.u64 	%rd5, %globaltimer;
	st.volatile.global.u64 	[%rd3], %rd5;
	sub.s64 	%rd6, %rd5, %rd4;
	setp.lt.u64 	%p1, %rd6, %rd2;
	@%p1 bra 	$L_again;

	ret;
}
)";

}  // namespace

Result StartSpin(const Gpu& gpu, DevicePointer counter, std::chrono::nanoseconds duration) {
  cuda::Module module = nullptr;
  Result result = gpu.api().cuModuleLoadData(&module, kPtx);
  if (result != Result::kSuccess) return result;
  cuda::Function function = nullptr;
  result = gpu.api().cuModuleGetFunction(&function, module, "kvpool_spin");
  if (result != Result::kSuccess) return result;
  uint64_t to = counter;
  auto nanoseconds = static_cast<uint64_t>(duration.count());
  std::array<void*, 2> parameters = {&to, &nanoseconds};
  return gpu.api().cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, /*shared_bytes=*/0, gpu.stream(),
                                  parameters.data(), /*extra=*/nullptr);
}

}  // namespace kvpool::questions
