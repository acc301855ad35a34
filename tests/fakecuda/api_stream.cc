#include <memory>

#include "tests/fakecuda/api.h"
#include "tests/fakecuda/calls.h"
#include "tests/fakecuda/streams.h"

using namespace fakecuda;  // NOLINT

Result cuStreamCreateWithPriority(Stream* stream, unsigned int /*flags*/, int /*priority*/) {
  return EnterInContext("cuStreamCreateWithPriority", [&](ContextState& context) {
    auto* const state = new StreamState(context);
    TheStreams().Add(state);
    *stream = reinterpret_cast<Stream>(state);
    return Result::kSuccess;
  });
}

Result cuStreamDestroy_v2(Stream stream) {
  return Enter("cuStreamDestroy", [&] {
    const std::unique_ptr<StreamState> state(TheStreams().Find(stream));
    if (state == nullptr) return Result::kInvalidHandle;
    TheStreams().Remove(state.get());
    return Result::kSuccess;
  });
}

Result cuStreamSynchronize(Stream stream) {
  return EnterInContext("cuStreamSynchronize", [&](ContextState&) {
    StreamState* const state = TheStreams().Find(stream);
    return state == nullptr ? Result::kInvalidHandle : state->Synchronize();
  });
}

Result cuThreadExchangeStreamCaptureMode(int* mode) {
  return Enter("cuThreadExchangeStreamCaptureMode", [&] {
    if (mode == nullptr || *mode < 0 || *mode > 2) return Result::kInvalidValue;
    *mode = ExchangeCaptureMode(*mode);
    return Result::kSuccess;
  });
}

Result cuEventCreate(Event* event, unsigned int /*flags*/) {
  return EnterInContext("cuEventCreate", [&](ContextState&) {
    auto* const state = new EventState();
    TheEvents().Add(state);
    *event = reinterpret_cast<Event>(state);
    return Result::kSuccess;
  });
}

Result cuEventRecord(Event event, Stream stream) {
  return EnterInContext("cuEventRecord", [&](ContextState&) {
    EventState* const state = TheEvents().Find(event);
    StreamState* const on = TheStreams().Find(stream);
    if (state == nullptr || on == nullptr) return Result::kInvalidHandle;
    state->Record(*on);
    return Result::kSuccess;
  });
}

Result cuEventQuery(Event event) {
  return EnterInContext("cuEventQuery", [&](ContextState&) {
    if (IsBarredByCapture()) return Result::kStreamCaptureUnsupported;
    EventState* const state = TheEvents().Find(event);
    return state == nullptr ? Result::kInvalidHandle : state->Query();
  });
}

Result cuEventSynchronize(Event event) {
  return EnterInContext("cuEventSynchronize", [&](ContextState&) {
    if (IsBarredByCapture()) return Result::kStreamCaptureUnsupported;
    EventState* const state = TheEvents().Find(event);
    return state == nullptr ? Result::kInvalidHandle : state->Synchronize();
  });
}

Result cuEventDestroy_v2(Event event) {
  return Enter("cuEventDestroy", [&] {
    const std::unique_ptr<EventState> state(TheEvents().Find(event));
    if (state == nullptr) return Result::kInvalidHandle;
    TheEvents().Remove(state.get());
    return Result::kSuccess;
  });
}
