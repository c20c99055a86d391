#include "clora/model/training/thread_ranks.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "runtime/fail.hpp"

namespace clora {
namespace {

// What the ranks share. Each exchange publishes a pointer for each rank and passes two barriers:
// all have published, all have read. Between them no rank may leave with an error, since others
// read its memory.
class ThreadGroup {
 public:
  explicit ThreadGroup(int ranks)
      : values(static_cast<std::size_t>(ranks)),
        texts(static_cast<std::size_t>(ranks)),
        messages_(static_cast<std::size_t>(ranks * ranks)) {}

  int ranks() const { return static_cast<int>(values.size()); }

  // Waits until all ranks have come. Errors: cancelled once a rank has failed.
  void barrier() {
    const std::uint32_t turn = turn_.load(std::memory_order_acquire);
    if (failed_.load(std::memory_order_acquire)) throw_failure();  // turn_ may not change any more
    if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == ranks()) {
      arrived_.store(0, std::memory_order_relaxed);
      turn_.fetch_add(1, std::memory_order_release);
      turn_.notify_all();
    } else {
      turn_.wait(turn, std::memory_order_acquire);
    }
    if (failed_.load(std::memory_order_acquire)) throw_failure();
  }

  // Ends the waits of all ranks, now and later. Only the first error is kept.
  void fail_at(int rank, std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (error_ == nullptr) {
        error_ = std::move(error);
        failed_rank_ = rank;
      }
    }
    failed_.store(true, std::memory_order_release);
    turn_.fetch_add(1, std::memory_order_release);
    turn_.notify_all();
    const std::lock_guard lock(messages_mutex_);
    sent_.notify_all();
  }
  std::exception_ptr error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }

  void send(int from, int to, std::span<const std::byte> bytes) {
    if (failed_.load(std::memory_order_acquire)) throw_failure();
    const std::lock_guard lock(messages_mutex_);
    messages(from, to).emplace_back(bytes.begin(), bytes.end());
    sent_.notify_all();
  }
  std::vector<std::byte> receive(int from, int to) {
    std::unique_lock lock(messages_mutex_);
    sent_.wait(lock, [&] { return may_receive(from, to); });
    if (messages(from, to).empty()) {
      lock.unlock();
      throw_failure();
    }
    std::vector<std::byte> message = std::move(messages(from, to).front());
    messages(from, to).pop_front();
    return message;
  }
  bool has_message(int from, int to) {
    const std::lock_guard lock(messages_mutex_);
    return may_receive(from, to);
  }

  std::vector<std::span<float>> values;
  std::vector<std::string_view> texts;

 private:
  std::deque<std::vector<std::byte>>& messages(int from, int to) {
    return messages_[static_cast<std::size_t>(from * ranks() + to)];
  }
  bool may_receive(int from, int to) {
    return failed_.load(std::memory_order_acquire) || !messages(from, to).empty();
  }
  [[noreturn]] void throw_failure() {
    const std::lock_guard lock(mutex_);
    fail(ErrorCode::cancelled, "ranks: rank {} has ended with an error, so the run cannot go on",
         failed_rank_);
  }

  std::atomic<int> arrived_ = 0;
  std::atomic<std::uint32_t> turn_ = 0;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;  // guards the two below
  std::exception_ptr error_;
  int failed_rank_ = 0;
  std::mutex messages_mutex_;  // guards those that are sent and not received
  std::condition_variable sent_;
  std::vector<std::deque<std::vector<std::byte>>> messages_;  // by sender, then receiver
};

// Each rank adds up one part of the values and writes it to all.
class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}

  int rank() const noexcept override { return rank_; }
  int size() const noexcept override { return group_.ranks(); }

  void sum(std::span<float> values) override {
    group_.values[own()] = values;
    group_.barrier();
    const std::size_t count = values.size(), ranks = group_.values.size();
    for (const std::span<float> other : group_.values) {  // fails on all ranks or on none
      require(other.size() == group_.values.front().size(),
              "ranks: {} and {} values cannot be added up", group_.values.front().size(),
              other.size());
    }
    add_up(count * own() / ranks, count * (own() + 1) / ranks);
    group_.barrier();
  }

  std::vector<std::string> all_gather(std::string_view bytes) override {
    group_.texts[own()] = bytes;
    group_.barrier();
    std::vector<std::string> all;
    try {
      all.assign(group_.texts.begin(), group_.texts.end());
    } catch (...) {
      group_.barrier();
      throw;
    }
    group_.barrier();
    return all;
  }

  void send(int to, std::span<const std::byte> bytes) override { group_.send(rank_, to, bytes); }
  void receive(int from, std::span<std::byte> bytes) override {
    const std::vector<std::byte> message = group_.receive(from, rank_);
    require_message(message.size(), bytes.size(), from);
    std::ranges::copy(message, bytes.begin());
  }
  bool has_message(int from) override { return group_.has_message(from, rank_); }

 private:
  std::size_t own() const { return static_cast<std::size_t>(rank_); }

  void add_up(std::size_t begin, std::size_t end) const {
    constexpr std::size_t kBlock = 1024;  // stays in the first-level cache
    std::array<float, kBlock> sum;
    for (std::size_t at = begin; at < end; at += kBlock) {
      const std::size_t count = std::min(kBlock, end - at);
      const float* const first = &group_.values.front()[at];
      std::copy(first, first + count, sum.begin());
      for (std::size_t r = 1; r < group_.values.size(); ++r) {
        const float* const other = &group_.values[r][at];
        for (std::size_t i = 0; i < count; ++i) sum[i] += other[i];
      }
      for (const std::span<float> of_rank : group_.values) {
        std::copy_n(sum.begin(), count, &of_rank[at]);
      }
    }
  }

  ThreadGroup& group_;
  int rank_;
};

}  // namespace

void run_thread_ranks(int ranks, const std::function<void(Communicator&)>& work) {
  require(ranks >= 1, "ranks: at least 1 is required, got {}", ranks);
  ThreadGroup group(ranks);
  const auto run = [&](int rank) {
    try {
      ThreadCommunicator communicator(group, rank);
      work(communicator);
    } catch (...) {
      group.fail_at(rank, std::current_exception());
    }
  };
  {
    std::vector<std::jthread> threads;
    for (int rank = 1; rank < ranks; ++rank) threads.emplace_back(run, rank);
    run(0);
  }
  if (group.error() != nullptr) std::rethrow_exception(group.error());
}

}  // namespace clora
