#include "model/training/stage_streams.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "runtime/elapsed.hpp"

namespace clora {
namespace {

std::size_t bytes_of_rows(const Tensor& stream, std::int64_t rows) {
  return static_cast<std::size_t>(rows) * stream.bytes() /
         static_cast<std::size_t>(stream.shape()[0]);
}

}  // namespace

StageStreams::StageStreams(Context& context, Communicator& ranks)
    : context_(context), ranks_(ranks) {}

StageStreams::HostStream& StageStreams::host_stream(std::size_t bytes) {
  const auto is_owed = [this](const HostStream& stream) {
    return std::ranges::find(owed_, &stream, &Owed::stream) != owed_.end();
  };
  for (auto at = streams_.begin(); at != streams_.end();) {
    const bool is_idle = !is_owed(*at) && at->transfer.passed();
    if (is_idle && at->memory.bytes().size() >= bytes) return *at;
    at = is_idle ? streams_.erase(at) : std::next(at);  // of smaller steps
  }
  streams_.push_back({PinnedMemory(context_, bytes), Fence()});
  return streams_.back();
}

void StageStreams::receive(int from, const Tensor& stream, std::int64_t rows, const Fence& before) {
  HostStream& host = host_stream(stream.bytes());
  const auto bytes = host.memory.bytes().first(stream.bytes());
  const auto got = bytes.first(bytes_of_rows(stream, rows));
  if (ranks_.has_message(from)) {
    ranks_.receive(from, got);
  } else {
    flush();
    before.wait();
    const TraceSpan span(context_.trace(), "wait", "a stage of the model");
    const auto begin = std::chrono::steady_clock::now();
    ranks_.receive(from, got);
    waited_seconds_ += seconds_since(begin);
  }
  std::ranges::fill(bytes.subspan(got.size()), std::byte{0});
  host.transfer = context_.write_async(stream, bytes);
}

void StageStreams::send(int to, const Tensor& stream, std::int64_t rows) {
  const std::size_t bytes = bytes_of_rows(stream, rows);
  HostStream& host = host_stream(bytes);
  host.transfer = context_.read_async(stream.rows(0, rows), host.memory.bytes().first(bytes));
  context_.flush();
  owed_.push_back({to, &host, bytes});
}

void StageStreams::flush() {
  for (const Owed& owed : std::exchange(owed_, {})) {
    owed.stream->transfer.wait();
    ranks_.send(owed.to, owed.stream->memory.bytes().first(owed.bytes));
  }
}

}  // namespace clora
