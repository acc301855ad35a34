#include "tests/simulation/link.h"

#include <algorithm>
#include <utility>

namespace kvpool::simulation {

Daemon::ConnectionPtr Link::Connect() {
  if (network_.daemon == nullptr) return nullptr;
  if (epoch_ != network_.daemon->epoch()) {
    epoch_ = network_.daemon->epoch();
    known_as_ = network_.daemon->NewProcess();
    connection_ = nullptr;
  }
  if (connection_ == nullptr || connection_->is_broken()) {
    connection_ = network_.daemon->Connect(known_as_, tenant_);
  }
  return connection_;
}

void Link::KeyIsAnswered(uint64_t key, bool is_ok) {
  --keys_[key].pending;
  if (!is_ok) keys_[key].has_failed = true;
}

bool Link::MayRepeat(uint64_t key) const {
  const auto known = keys_.find(key);
  if (key == 0 || known == keys_.end()) return true;
  return known->second.pending == 0 && !known->second.has_failed;
}

FlightPtr Link::Begin() {
  flights_.push_back(std::make_shared<Flight>(Flight{.wait = process_.BeginWait()}));
  return flights_.back();
}

absl::Status Link::Await(const FlightPtr& flight, Duration timeout,
                         client::Cancellation& cancellation) {
  {
    const client::Cancellation::Scope scope(
        cancellation, [this, flight] { Finish(flight, absl::CancelledError("cancelled")); });
    process_.scheduler.After(
        timeout,
        [this, flight] {
          if (flight->is_over) process_.scheduler.CountNoStep();
          Finish(flight, absl::DeadlineExceededError("too late"));
        },
        &process_);
    process_.Await(flight->wait);
  }
  std::erase(flights_, flight);
  return flight->status;
}

void Link::Finish(const FlightPtr& flight, absl::Status status) {
  if (std::exchange(flight->is_over, true)) return;
  flight->status = std::move(status);
  process_.Wake(flight->wait);
}

void Link::Break(Duration delay) {
  if (connection_ == nullptr || connection_->is_broken()) return;
  process_.scheduler.After(delay, [this, connection = std::exchange(connection_, nullptr)] {
    if (!connection->is_broken()) network_.daemon->Break(*connection);
  });
  FinishAll(absl::UnavailableError("the connection broke"));
}

void Link::BreakByDaemon() {
  if (connection_ == nullptr || connection_->is_broken()) return;
  network_.daemon->Break(*connection_);
  FinishAll(absl::UnavailableError("the daemon broke the connection"));
}

void Link::TellGone() {
  if (network_.daemon == nullptr || known_as_ == nullptr) return;
  if (epoch_ == network_.daemon->epoch()) network_.daemon->ProcessGone(*known_as_);
}

void Link::FinishAll(const absl::Status& status) {
  ++break_count_;
  for (const FlightPtr& flight : flights_) {
    process_.scheduler.After(
        Duration::zero(), [this, flight, status] { Finish(flight, status); }, &process_);
  }
}

}  // namespace kvpool::simulation
