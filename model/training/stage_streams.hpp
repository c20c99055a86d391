// StageStreams: passes residual streams and their gradients between the neighbouring stages of a
// model that is split by layers, one stage a rank, through host memory.
//
// A stream is sent when the device has computed it, which the next call waits for: the caller
// enqueues more work in between, so that the device does not wait. Before it waits for a neighbour,
// a stage sends all that it owes: no two stages wait for each other.
// Must not outlive the Context or the Communicator. Threads: those of the Context, one at a time.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <vector>

#include "clora/model/training/communicator.hpp"
#include "clora/runtime/context.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {

class StageStreams {
 public:
  StageStreams(Context& context, Communicator& ranks);

  // Waits for the next stream of rank `from`, and enqueues its upload to `stream` [T, D] f32, whose
  // rows from `rows` on become 0. before: after the work of this device so far.
  // Errors: those of the Communicator.
  void receive(int from, const Tensor& stream, std::int64_t rows, const Fence& before);
  // Sends the first `rows` rows of a stream to rank `to`, when they are computed: in flush() or in
  // receive(). Commands that are enqueued later may overwrite the stream.
  void send(int to, const Tensor& stream, std::int64_t rows);
  // Waits for the streams of all send() calls, and sends them.
  void flush();

  // How long this stage has waited for its neighbours with an idle device.
  double waited_seconds() const noexcept { return waited_seconds_; }

 private:
  struct HostStream {
    PinnedMemory memory;
    Fence transfer;
  };
  struct Owed {
    int to;
    HostStream* stream;
    std::size_t bytes;
  };
  // One that no transfer uses.
  HostStream& host_stream(std::size_t bytes);

  Context& context_;
  Communicator& ranks_;
  std::list<HostStream> streams_;
  std::vector<Owed> owed_;
  double waited_seconds_ = 0;
};

}  // namespace clora
