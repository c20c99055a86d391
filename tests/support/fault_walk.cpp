#include "tests/support/fault_walk.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <set>

#include "clora/lora/safetensors.hpp"
#include "clora/ops/loss/cross_entropy.hpp"
#include "clora/runtime/commands/batch.hpp"
#include "runtime/commands/in_flight.hpp"
#include "tests/support/tiny_models.hpp"

namespace clora::test {
namespace {

bool walks_everything() {
  const char* wanted = std::getenv("CLORA_FAULTS");
  return wanted != nullptr && std::string_view(wanted) == "all";
}

// The calls n of 1..count to try.
std::vector<int> chosen(int count, const WalkPlan& plan) {
  std::vector<int> all;
  const int dense = walks_everything() ? count : plan.dense;
  const int stride = std::max(1, (count - dense) / std::max(1, plan.later));
  for (int n = 1; n <= count; n += n < dense ? 1 : stride) all.push_back(n);
  if (!all.empty() && all.back() != count) all.push_back(count);
  return all;
}

// The error codes that are appropriate if a call of this kind fails.
std::set<ErrorCode> sensible_codes(CallKind kind) {
  switch (kind) {
    case CallKind::allocation:
      return {ErrorCode::out_of_memory};
    case CallKind::sub_buffer:
    case CallKind::migrate:
    case CallKind::fill:  // filling commits the memory
    case CallKind::map:
      return {ErrorCode::out_of_memory, ErrorCode::device, ErrorCode::device_lost};
    case CallKind::build:
      return {ErrorCode::build_failed};
    case CallKind::program:
    case CallKind::kernel:
    case CallKind::binary:
      return {ErrorCode::build_failed, ErrorCode::device};
    case CallKind::query:
      return {ErrorCode::device, ErrorCode::no_device, ErrorCode::build_failed};
    case CallKind::context:
    case CallKind::queue:
      return {ErrorCode::device};
    default:
      return {ErrorCode::device, ErrorCode::device_lost};
  }
}

struct Ending {
  std::optional<Error> error;
  std::string result;
};

// Runs the work. An exception other than Error fails the test.
Ending end_of(const FaultyWork& work) {
  Ending ending;
  try {
    ending.result = work.run();
  } catch (const Error& error) {
    ending.error = error;
  } catch (const std::exception& other) {
    ADD_FAILURE() << "not an Error: " << other.what();
  }
  return ending;
}

void expect_clear(const Error& error, const std::set<ErrorCode>& codes) {
  const std::string message = error.what();
  EXPECT_NE(message.find(": "), std::string::npos) << "names nobody: " << message;
  EXPECT_GT(message.size(), 12U) << message;
  EXPECT_TRUE(codes.contains(error.code()))
      << "code " << static_cast<int>(error.code()) << ": " << message;
}

void trim(const FaultyWork& work) {
  Context* context = work.context();
  if (context == nullptr) return;
  context->pool().trim();
  // The Context retains an event or two of completed commands until it is polled.
  if (!context->health()->lost()) context->finish();
  context->in_flight().reclaim();
}

std::size_t bytes_in_use(const FaultyWork& work) {
  Context* context = work.context();
  return context == nullptr ? 0 : context->pool().statistics().in_use_bytes;
}

// The state that the work must not change.
struct Before {
  LiveObjects objects;
  std::size_t bytes = 0;
  static Before of(const FaultyWork& work) {
    trim(work);
    return {live_objects(), bytes_in_use(work)};
  }
};

class Walker {
 public:
  explicit Walker(const FaultyWork& work) : work_(work) {
    work_.prepare();
    end_of(work_);  // builds programs and creates tables
    clear_faults();
    want_ = end_of(work_).result;
    for (std::size_t i = 0; i < kCallKinds; ++i) counts_[i] = calls(all_call_kinds()[i]);
    all_ = all_calls();
    EXPECT_FALSE(want_.empty()) << work_.name << " fails without any fault";
  }

  int count(CallKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  int count_all() const { return all_; }

  // One run with the fault that `arm` injects.
  void try_one(const std::function<void()>& arm, const std::set<ErrorCode>& codes) {
    prepare();
    const Before before = Before::of(work_);
    clear_faults();
    arm();
    const Ending ending = end_of(work_);
    const bool reached = failed_calls() > 0;
    clear_faults();
    // The number of flushes and status queries of a wait depends on the device's speed.
    if (!reached) {
      EXPECT_TRUE(ending.result == want_)
          << "without a fault: " << (ending.error ? ending.error->what() : "another result");
      return;
    }
    ++count_.tried;
    check(ending, before, codes);
  }

  FaultCount result() const { return count_; }

 private:
  // Ensures that a new Context has its programs built before anything is counted.
  void prepare() {
    const Context* context = work_.context();
    const bool was_lost = context != nullptr && context->health()->lost();
    work_.prepare();
    if (was_lost) end_of(work_);
  }
  void check(const Ending& ending, const Before& before, const std::set<ErrorCode>& codes) {
    if (!ending.error.has_value()) {
      ++count_.tolerated;
      EXPECT_TRUE(ending.result == want_) << "another result than without the fault";
    } else {
      ++count_.errors;
      expect_clear(*ending.error, codes);
      work_.check_files();
    }
    trim(work_);
    Context* context = work_.context();
    LiveObjects now = live_objects();
    // A Context keeps the programs that it has built. Work from nothing tests that they are
    // released with it.
    if (context != nullptr) now.programs = before.objects.programs;
    EXPECT_EQ(now, before.objects) << "now " << now.text() << "; before " << before.objects.text();
    EXPECT_EQ(bytes_in_use(work_), before.bytes);
    if (context == nullptr) return;
    if (context->health()->lost()) {
      ++count_.lost;
      CLORA_EXPECT_ERROR(context->finish(), ErrorCode::device_lost, "lost");
    } else {
      expect_usable(*context);
    }
  }

  const FaultyWork& work_;
  std::string want_;
  std::array<int, kCallKinds> counts_{};
  int all_ = 0;
  FaultCount count_;
};

}  // namespace

FaultCount& FaultCount::operator+=(const FaultCount& other) {
  tried += other.tried;
  errors += other.errors;
  tolerated += other.tolerated;
  lost += other.lost;
  return *this;
}

std::string FaultCount::text() const {
  return fmt::format("{} faults tried: {} errors, {} of them lost the context; {} tolerated", tried,
                     errors, lost, tolerated);
}

FaultCount walk_faults(const FaultyWork& work, const WalkPlan& plan) {
  Walker walker(work);
  for (const CallKind kind : all_call_kinds()) {
    if (!plan.kinds.empty() && std::ranges::find(plan.kinds, kind) == plan.kinds.end()) continue;
    for (const int n : chosen(walker.count(kind), plan)) {
      for (const bool lasting : {false, true}) {
        if (lasting && !plan.lasting && !walks_everything()) continue;
        SCOPED_TRACE(fmt::format("{}: {} call {} of {}{}", work.name, name_of(kind), n,
                                 walker.count(kind), lasting ? " and all later" : ""));
        walker.try_one([&] { inject({.kind = kind, .nth = n, .lasting = lasting}); },
                       sensible_codes(kind));
        if (testing::Test::HasFailure()) return walker.result();  // one failure is enough
      }
    }
  }
  return walker.result();
}

FaultCount walk_losses(const FaultyWork& work, const WalkPlan& plan) {
  Walker walker(work);
  for (const int n : chosen(walker.count_all(), plan)) {
    SCOPED_TRACE(fmt::format("{}: device lost at call {} of {}", work.name, n, walker.count_all()));
    walker.try_one([&] { lose_device_at(n); },
                   {ErrorCode::device, ErrorCode::device_lost, ErrorCode::no_device,
                    ErrorCode::out_of_memory, ErrorCode::build_failed});
    if (testing::Test::HasFailure()) break;
  }
  return walker.result();
}

void report(const FaultCount& count) {
  std::cout << count.text() << '\n';
  testing::Test::RecordProperty("faults_tried", count.tried);
  EXPECT_GT(count.errors, 0);
}

FaultyModel::FaultyModel(ContextConfig config) : config_(std::move(config)) {
  write_tiny_model(folder(), tiny_models().front().config);
}

void FaultyModel::renew() {
  if (context_ != nullptr && !context_->health()->lost()) return;
  close();
  if (config_.cache_folder.empty()) config_.cache_folder = folder_ / "cache";  // makes renew() fast
  context_ = std::make_unique<Context>(config_);
  files_ = std::make_unique<WeightFiles>(WeightFiles::open(folder()));
  model_ = std::make_unique<LanguageModel>(*context_, *files_);
  model_->prepare_rope_tables(128);  // the model keeps the table, so it must not look like a leak
}

void FaultyModel::close() {
  model_.reset();
  files_.reset();
  context_.reset();
}

FaultyWork FaultyModel::work(const std::string& name, std::function<std::string()> run) {
  return {.name = name,
          .run = std::move(run),
          .context = [this] { return context_.get(); },
          .prepare = [this] { renew(); },
          .check_files = [this] { expect_complete_files(out()); }};
}

FaultyWork FaultyModel::work_from_nothing(const std::string& name,
                                          std::function<std::string()> run) {
  return {.name = name,
          .run = std::move(run),
          .context = [] { return nullptr; },
          .prepare = [] {},
          .check_files = [this] { expect_complete_files(out()); }};
}

std::filesystem::path FaultyModel::fresh_out() const {
  std::filesystem::remove_all(out());
  return out();
}

ContextConfig faulty_config(const std::filesystem::path& cache_folder) {
  ContextConfig config = config_from_environment();
  config.cache_folder = cache_folder;
  config.self_test = false;  // a failed self-test would turn a fault into another kernel's rounding
  return config;
}

void expect_complete_files(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const std::string extension = entry.path().extension();
    if (extension == ".safetensors") {
      EXPECT_NO_THROW(SafetensorsFile::open(entry.path())) << entry.path();
    } else if (extension == ".json") {
      EXPECT_NO_THROW(nlohmann::json::parse(read_file(entry.path()))) << entry.path();
    } else {
      ADD_FAILURE() << "left behind: " << entry.path();
    }
  }
}

void expect_usable(Context& context) {
  const std::array<float, 3> values{1, 2, 3};
  try {
    const Tensor x = context.upload<float>({3}, DType::f32, values, MemoryTag::scratch);
    const Tensor sum = context.allocate({1}, DType::f32, MemoryTag::scratch);
    Batch batch(context);
    record_sum(batch, sum, x, false);
    batch.submit().wait();
    EXPECT_EQ(context.read<float>(sum).front(), 6.0F);
  } catch (const Error& error) {
    ADD_FAILURE() << "the context is neither usable nor lost: " << error.what();
  }
}

}  // namespace clora::test
