#include "tests/integration/churn/mailbox.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <utility>

#include "core/check.h"

namespace kvpool::test {
namespace {

sockaddr_un NameOf(const std::string& path) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  path.copy(name.sun_path, sizeof(name.sun_path) - 1);
  return name;
}

}  // namespace

Mailbox::Mailbox(std::string directory, uint32_t number)
    : directory_(std::move(directory)),
      socket_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  KVPOOL_CHECK(socket_.get() >= 0);
  const sockaddr_un name = NameOf(Path(number));
  unlink(name.sun_path);
  KVPOOL_CHECK(bind(socket_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(name)) == 0);
}

std::string Mailbox::Path(uint32_t number) const {
  return directory_ + "/" + std::to_string(number);
}

void Mailbox::Send(uint32_t number, const Offer& offer) {
  const sockaddr_un name = NameOf(Path(number));
  static_cast<void>(sendto(socket_.get(), &offer, sizeof(offer), MSG_NOSIGNAL,
                           reinterpret_cast<const sockaddr*>(&name), sizeof(name)));
}

std::optional<Offer> Mailbox::Receive() {
  Offer offer;
  if (recv(socket_.get(), &offer, sizeof(offer), 0) != sizeof(offer)) return std::nullopt;
  return offer;
}

}  // namespace kvpool::test
