// GradientExchange: adds up the gradients of all ranks of a run, between the last micro-batch of an
// optimiser step and the update.
//
// The gradients go through host memory in pieces, in the order in which the backward completes
// them: the blocks from the last one on. While one piece is added up, the device computes the next,
// so that only the last piece is waited for. Owns the host memory. Must not outlive the Context or
// the Communicator. Threads: those of the Context, one at a time.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "clora/model/training/communicator.hpp"
#include "clora/model/training/recorded_step.hpp"
#include "runtime/commands/side_queue.hpp"
#include "runtime/memory/pinned_memory.hpp"

namespace clora {

class GradientExchange {
 public:
  // Blocks with fewer gradients share a piece: an exchange takes some time however short it is.
  static constexpr std::size_t kLeastElements = std::size_t{1} << 18U;

  // gradients [n] f32: flat, of the same n on every rank. sums: small f32 tensors, which are added
  // up with the last piece.
  GradientExchange(Context& context, Communicator& ranks, Tensor gradients,
                   std::vector<Tensor> sums, std::size_t least_elements = kLeastElements);

  // Which gradients are final before the end of a step: RecordedStep::gradient_parts(), which are
  // the same ones in all steps of all ranks; or none. Before the first begin(), once.
  void set_parts(std::vector<GradientPart> parts);
  bool has_parts() const noexcept { return !pieces_.empty(); }

  // Notes that the gradients of this rank are enqueued. last: the last recorded step of it, just
  // submitted; null if this rank computes nothing in this step. end: of all its commands.
  void begin(const RecordedStep* last, Fence end);
  bool pending() const noexcept { return pending_; }
  // Waits until all ranks have computed theirs, and writes the sums to the gradients of every rank:
  // a command that is enqueued afterwards reads them. Returns the elements of the sums, one tensor
  // after the other. Collective.
  // Errors: those of the Communicator; device_lost.
  std::vector<float> finish();

 private:
  struct Range {
    std::size_t begin, end;  // elements of the gradients
  };
  static constexpr std::size_t kAtTheEnd = static_cast<std::size_t>(-1);
  // What is added up at once.
  struct Piece {
    std::vector<Range> ranges;
    std::size_t part = kAtTheEnd;  // the last of the step's parts that has to be final
    std::size_t place = 0;         // in the host memory, in elements
    std::size_t elements = 0;      // with those of the sums
  };

  void add_piece(std::vector<Range> ranges, std::size_t part);
  void add_last_piece(std::vector<Range> ranges, std::vector<Range> taken);
  void wait_for(const Piece& piece) const;
  Tensor slice(const Range& range) const;
  std::span<float> host(std::size_t place, std::size_t elements) const;
  void read(const Piece& piece);
  void write(const Piece& piece, std::vector<Fence>& fences);

  Context& context_;
  Communicator& ranks_;
  Tensor gradients_;
  std::vector<Tensor> sums_;
  std::size_t sum_elements_ = 0;
  std::size_t least_elements_;
  std::vector<Piece> pieces_;  // the last one: all that is final at the end only, and the sums
  std::optional<PinnedMemory> memory_;
  SideQueue queue_;                 // destroyed before the memory of its transfers
  std::vector<Fence> part_fences_;  // of the step in flight; passed: of parts without a mark
  Fence end_;
  bool pending_ = false;
};

}  // namespace clora
