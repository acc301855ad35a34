// Runs a program as on a kernel that knows no pidfds: without_pidfds PROGRAM ARGUMENTS...
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>

namespace {

constexpr uint32_t kSoPeerPidfd = 77;  // SO_PEERPIDFD, which older headers lack.

// The low half of an argument.
constexpr uint32_t Argument(size_t index) {
  return static_cast<uint32_t>(offsetof(seccomp_data, args) + index * sizeof(uint64_t));
}

constexpr sock_filter Load(uint32_t offset) { return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset); }

// Goes on where the loaded number is `value`, else skips `otherwise` instructions.
constexpr sock_filter Equals(uint32_t value, uint8_t otherwise) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, otherwise);
}

constexpr sock_filter Return(uint32_t action) { return BPF_STMT(BPF_RET | BPF_K, action); }

// pidfd_open is no system call, and SO_PEERPIDFD no option.
bool HidePidfds() {
  std::array<sock_filter, 10> filter = {{
      Load(offsetof(seccomp_data, nr)),
      Equals(SYS_pidfd_open, 1),
      Return(SECCOMP_RET_ERRNO | ENOSYS),
      Equals(SYS_getsockopt, 5),
      Load(Argument(1)),
      Equals(SOL_SOCKET, 3),
      Load(Argument(2)),
      Equals(kSoPeerPidfd, 1),
      Return(SECCOMP_RET_ERRNO | ENOPROTOOPT),
      Return(SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{.len = filter.size(), .filter = filter.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (!HidePidfds()) {
    std::perror("seccomp");
    return 1;
  }
  execv(argv[1], argv + 1);
  std::perror(argv[1]);
  return 1;
}
