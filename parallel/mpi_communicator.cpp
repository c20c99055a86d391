#include "clora/parallel/mpi_communicator.hpp"

#define OMPI_SKIP_MPICXX  // the C interface only: no library of the C++ one is linked
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <list>
#include <numeric>
#include <thread>

#include "runtime/elapsed.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

void check(int status, std::string_view call) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  fail(ErrorCode::io, "ranks: {}: {}", call, text.data());
}

int count_of(std::size_t count) {
  require(count <= static_cast<std::size_t>(std::numeric_limits<int>::max()),
          "ranks: at most {} values can be exchanged at once, got {}",
          std::numeric_limits<int>::max(), count);
  return static_cast<int>(count);
}

// Where the part of each rank begins, and the end of all.
std::vector<int> begins_of(const std::vector<int>& counts) {
  std::vector<int> begins{0};
  for (const int count : counts) begins.push_back(begins.back() + count);
  return begins;
}

constexpr int kTag = 1;  // of all messages

void abort_all() { MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE); }

}  // namespace

std::string mpi_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data(), static_cast<std::size_t>(length));
  return version.substr(0, version.find(','));  // the rest is how it was built
}

struct MpiCommunicator::State {
  State();

  // Waits for an operation.
  void wait(MPI_Request request, std::string_view call);
  // Calls done() until it returns true.
  template <class Done>
  void poll(Done done);
  // Errors: cancelled, if the process of a rank on this host is gone.
  void require_all_alive() const;
  template <class T>
  std::vector<T> gather(const T& value);

  int rank = 0, size = 1;
  std::vector<pid_t> processes;  // by rank; 0 on other hosts
  std::vector<float> parts;      // of all ranks
  struct Sent {
    std::vector<std::byte> bytes;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  std::list<Sent> sent;  // messages that may still be read
};

MpiCommunicator::State::State() {
  int provided = 0;
  // Signals are clora's.
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS ||
      provided < MPI_THREAD_FUNNELED) {
    fail(ErrorCode::unsupported, "ranks: MPI cannot start for a program with threads");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  struct Place {
    std::array<char, 256> host;
    pid_t process;
  };
  Place own{{}, ::getpid()};
  ::gethostname(own.host.data(), own.host.size() - 1);
  for (const Place& place : gather(own)) {
    processes.push_back(place.host == own.host ? place.process : 0);
  }
}

template <class T>
std::vector<T> MpiCommunicator::State::gather(const T& value) {
  std::vector<T> all(static_cast<std::size_t>(size));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgather(&value, sizeof value, MPI_BYTE, all.data(), sizeof value, MPI_BYTE,
                       MPI_COMM_WORLD, &request),
        "MPI_Iallgather");
  wait(request, "MPI_Iallgather");
  return all;
}

void MpiCommunicator::State::require_all_alive() const {
  for (std::size_t other = 0; other < processes.size(); ++other) {
    if (processes[other] == 0 || ::kill(processes[other], 0) == 0 || errno != ESRCH) continue;
    fail(ErrorCode::cancelled,
         "ranks: the process of rank {} ({}) has ended, so the run cannot go on; resume from the "
         "last checkpoint",
         other, processes[other]);
  }
}

// Polls, at first without a pause: the others are usually here at the same time. A rank that has
// more to compute is waited for without occupying a core.
template <class Done>
void MpiCommunicator::State::poll(Done done) {
  constexpr double kPolling = 2e-3, kBetweenChecks = 0.2;
  const auto begin = std::chrono::steady_clock::now();
  double next_check = kBetweenChecks;
  for (;;) {
    if (done()) return;
    const double seconds = seconds_since(begin);
    if (seconds > next_check && !processes.empty()) {
      require_all_alive();
      next_check = seconds + kBetweenChecks;
    }
    if (seconds < kPolling) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

void MpiCommunicator::State::wait(MPI_Request request, std::string_view call) {
  poll([&] {
    int done = 0;
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    return done != 0;
  });
}

MpiCommunicator::MpiCommunicator() : state_(std::make_unique<State>()) {}

MpiCommunicator::~MpiCommunicator() {
  if (std::uncaught_exceptions() > 0) {
    (void)std::atexit(abort_all);  // after the error was shown
  } else {
    MPI_Finalize();
  }
}

int MpiCommunicator::rank() const noexcept { return state_->rank; }
int MpiCommunicator::size() const noexcept { return state_->size; }

// Each rank gets one part of the values of all, adds it up, and sends it to all.
void MpiCommunicator::sum(std::span<float> values) {
  State& s = *state_;
  const auto ranks = static_cast<std::size_t>(s.size), own = static_cast<std::size_t>(s.rank);
  std::vector<int> counts(ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    counts[r] = count_of(values.size() * (r + 1) / ranks - values.size() * r / ranks);
  }
  const std::vector<int> begins = begins_of(counts);
  const auto part = static_cast<std::size_t>(counts[own]);
  const std::vector<int> same(ranks, counts[own]), places = begins_of(same);
  s.parts.resize(ranks * part);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ialltoallv(values.data(), counts.data(), begins.data(), MPI_FLOAT, s.parts.data(),
                       same.data(), places.data(), MPI_FLOAT, MPI_COMM_WORLD, &request),
        "MPI_Ialltoallv");
  s.wait(request, "MPI_Ialltoallv");
  float* const sum = s.parts.data();
  for (std::size_t r = 1; r < ranks; ++r) {
    const float* const other = &s.parts[r * part];
    for (std::size_t i = 0; i < part; ++i) sum[i] += other[i];
  }
  check(MPI_Iallgatherv(sum, counts[own], MPI_FLOAT, values.data(), counts.data(), begins.data(),
                        MPI_FLOAT, MPI_COMM_WORLD, &request),
        "MPI_Iallgatherv");
  s.wait(request, "MPI_Iallgatherv");
}

std::vector<std::string> MpiCommunicator::all_gather(std::string_view bytes) {
  State& s = *state_;
  const std::vector<int> counts = s.gather(count_of(bytes.size()));
  const std::vector<int> begins = begins_of(counts);
  std::string all(static_cast<std::size_t>(begins.back()), '\0');
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Iallgatherv(bytes.data(), count_of(bytes.size()), MPI_BYTE, all.data(), counts.data(),
                        begins.data(), MPI_BYTE, MPI_COMM_WORLD, &request),
        "MPI_Iallgatherv");
  s.wait(request, "MPI_Iallgatherv");
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    texts.push_back(
        all.substr(static_cast<std::size_t>(begins[r]), static_cast<std::size_t>(counts[r])));
  }
  return texts;
}

void MpiCommunicator::send(int to, std::span<const std::byte> bytes) {
  std::erase_if(state_->sent, [](State::Sent& message) {
    int done = 0;
    check(MPI_Test(&message.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  });
  State::Sent& message = state_->sent.emplace_back();
  message.bytes.assign(bytes.begin(), bytes.end());
  check(MPI_Isend(message.bytes.data(), count_of(bytes.size()), MPI_BYTE, to, kTag, MPI_COMM_WORLD,
                  &message.request),
        "MPI_Isend");
}

void MpiCommunicator::receive(int from, std::span<std::byte> bytes) {
  MPI_Status status;
  state_->poll([&] {
    int found = 0;
    check(MPI_Iprobe(from, kTag, MPI_COMM_WORLD, &found, &status), "MPI_Iprobe");
    return found != 0;
  });
  int size = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &size), "MPI_Get_count");
  require_message(static_cast<std::size_t>(size), bytes.size(), from);
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Irecv(bytes.data(), size, MPI_BYTE, from, kTag, MPI_COMM_WORLD, &request), "MPI_Irecv");
  state_->wait(request, "MPI_Irecv");
}

bool MpiCommunicator::has_message(int from) {
  int found = 0;
  check(MPI_Iprobe(from, kTag, MPI_COMM_WORLD, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  return found != 0;
}

}  // namespace clora
