// Communicator: the ranks of one training run, each with a device of its own, and what they
// exchange through host memory. A rank is a thread (model/training/thread_ranks.hpp) or a process
// (parallel/mpi_communicator.hpp).
//
// Collective calls, which are sum() and all_gather(): every rank makes the same calls in the same
// order, and each returns once all ranks have made it. Results depend on the ranks' values and
// their order only, never on who came first. Threads: one per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace clora {

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const noexcept = 0;  // from 0
  virtual int size() const noexcept = 0;  // ranks

  // values = the sum over all ranks, each element added in the order of the ranks: all ranks get
  // the same bits. REQUIRES: as many values on every rank.
  // Errors (also of all_gather()): cancelled if another rank has ended, naming it.
  virtual void sum(std::span<float> values) = 0;
  // Returns the bytes of every rank, in the order of the ranks.
  virtual std::vector<std::string> all_gather(std::string_view bytes) = 0;

  // Messages between two ranks, which only these take part in. They arrive in the order in which
  // they were sent; send() copies the bytes and does not wait for the other rank.
  // Errors: cancelled if another rank has ended.
  virtual void send(int to, std::span<const std::byte> bytes) = 0;
  // Waits for the next message. REQUIRES: bytes has its size. Errors: also invalid_data if not.
  virtual void receive(int from, std::span<std::byte> bytes) = 0;
  // Whether receive() would not wait.
  virtual bool has_message(int from) = 0;
};

// Whether this rank computes the n-th of parts that are dealt out in turn; without ranks (null), it
// computes all. Not collective.
bool is_own(std::size_t n, const Communicator* ranks);
// Whether `value` holds on any rank. Collective.
bool any_rank(Communicator& ranks, bool value);
// Throws Error(invalid_data) unless a message of `got` bytes has the expected size.
void require_message(std::size_t got, std::size_t expected, int from);
// The value of each rank. Collective.
std::vector<double> gather_values(Communicator& ranks, double value);

}  // namespace clora
