#include "server/rpc/services.h"

#include <utility>

#include "server/rpc/admin_service.h"
#include "server/rpc/block_service.h"
#include "server/rpc/inspect_service.h"

namespace kvpool::server {

struct Services::Impl {
  explicit Impl(ServiceContext given)
      : context(std::move(given)), blocks(context), inspect(context), admin(context) {}

  const ServiceContext context;
  BlockService blocks;
  InspectService inspect;
  AdminService admin;
};

Services::Services(ServiceContext context) : impl_(std::make_unique<Impl>(std::move(context))) {}

Services::~Services() = default;

void Services::Register(grpc::ServerBuilder& builder) {
  builder.RegisterService(&impl_->blocks);
  builder.RegisterService(&impl_->inspect);
  builder.RegisterService(&impl_->admin);
}

}  // namespace kvpool::server
