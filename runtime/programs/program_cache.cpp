#include "clora/runtime/programs/program_cache.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "runtime/elapsed.hpp"
#include "runtime/programs/kernel_text.hpp"
#include "runtime/programs/program.hpp"
#include "runtime/programs/program_entry.hpp"

namespace clora {
namespace {

using Clock = std::chrono::steady_clock;

// pocl generates a kernel's machine code when the kernel first runs. Its binary is fixed at the
// first request for it, so the request is made late.
bool binary_grows_with_use(const Device& device) { return is_pocl(device); }

// Reports the start of a build and its end, whether it succeeds or fails.
class ReportedBuild {
 public:
  ReportedBuild(const Hooks& hooks, std::string_view file, std::size_t number)
      : hooks_(hooks), file_(file), number_(number) {
    hooks_.report({.file = file_, .number = number_});
  }
  ReportedBuild(const ReportedBuild&) = delete;
  ReportedBuild& operator=(const ReportedBuild&) = delete;
  ~ReportedBuild() {
    hooks_.report({.file = file_, .number = number_, .finished = true, .seconds = seconds()});
  }

  double seconds() const { return seconds_since(start_); }

 private:
  const Hooks& hooks_;
  std::string_view file_;
  std::size_t number_;
  Clock::time_point start_ = Clock::now();
};

}  // namespace

Defines& Defines::set(std::string_view name, std::string_view value) {
  text_ += fmt::format(" -D {}={}", name, value);
  return *this;
}

Defines& Defines::add_option(std::string_view option) {
  text_ += fmt::format(" {}", option);
  return *this;
}

std::string build_options(const Defines& defines) {
  const bool has_standard = defines.text().find("-cl-std=") != std::string::npos;
  return has_standard ? defines.text().substr(1) : "-cl-std=CL1.2" + defines.text();
}

struct ProgramCache::Built {
  ProgramKey key;
  std::string source;
  std::shared_ptr<const Program> program;
  std::vector<std::weak_ptr<const Program>> earlier;  // replaced by `program`
  std::set<std::string> functions;                    // requested so far
  std::set<std::string> stored;  // functions whose machine code the loaded entry has; empty: all
  bool to_store = false;
};

ProgramCache::ProgramCache(cl_context context, const Device& device, ProgramCacheConfig config)
    : context_(context), device_(device), config_(std::move(config)) {}

ProgramCache::~ProgramCache() {
  try {
    store_new_programs(std::max(1.0, 0.05 * seconds_since(born_)));
  } catch (...) {  // a failure to fill the cache is not an error
  }
}

Kernel ProgramCache::kernel(std::string_view file, std::string_view function,
                            const Defines& defines) {
  return {built(std::string(file), build_options(defines), function).program,
          std::string(function)};
}

std::optional<ProgramSource> ProgramCache::source_of(const Kernel& kernel) const {
  for (const auto& [key, built] : built_) {
    const auto is_it = [&](const auto& earlier) { return earlier.lock() == kernel.program; };
    if (built->program == kernel.program || std::ranges::any_of(built->earlier, is_it)) {
      return ProgramSource{built->key.file, built->source, built->key.options};
    }
  }
  return std::nullopt;
}

ProgramCache::Built& ProgramCache::built(const std::string& file, const std::string& options,
                                         std::string_view function) {
  const std::string key = fmt::format("{}|{}", file, options);
  const auto failed = failed_.find(key);
  if (failed != failed_.end()) throw Error(ErrorCode::build_failed, failed->second);
  try {
    auto found = built_.find(key);
    if (found == built_.end()) {
      auto fresh = std::make_unique<Built>();
      fresh->source = kernel_text(file, config_.kernel_folders);
      fresh->key = program_key(device_, file, options, fresh->source);
      load_or_build(*fresh);
      found = built_.emplace(key, std::move(fresh)).first;
    }
    require_machine_code(*found->second, std::string(function));
    return *found->second;
  } catch (const Error& error) {
    if (error.code() == ErrorCode::build_failed) failed_[key] = error.what();
    throw;
  }
}

void ProgramCache::require_machine_code(Built& built, const std::string& function) {
  if (!built.stored.empty() && !built.stored.contains(function)) {
    const std::shared_ptr<const Program> before = built.program;
    build(built);  // the stored entry lacks this function's machine code; the next one has it
    built.earlier.push_back(before);
    built.functions.insert(built.stored.begin(), built.stored.end());
    built.stored.clear();
  }
  built.functions.insert(function);
}

void ProgramCache::load_or_build(Built& built) {
  const bool hit = load(built);
  config_.hooks.measure(hit ? "program_cache.hits" : "program_cache.misses", 1);
  if (!hit) build(built);
}

bool ProgramCache::load(Built& built) {
  if (config_.store == nullptr) return false;
  const std::string name = built.key.name();
  try {
    const auto bytes = config_.store->load(name);
    if (!bytes) return false;
    ProgramEntry entry = decode_program_entry(built.key, *bytes);
    const std::shared_ptr<void> attempt = config_.store->begin_attempt(name, *bytes);
    built.program = Program::from_binary(context_, device_.id, entry.binary, built.key.options);
    built.stored = std::move(entry.functions);
    return true;
  } catch (const std::exception& error) {
    config_.hooks.measure("program_cache.rejected", 1);
    distrust_store(
        fmt::format("the entry for {} cannot be used: {}", built.key.file, error.what()));
    return false;
  }
}

void ProgramCache::build(Built& built) {
  {
    const ReportedBuild build(config_.hooks, built.key.file, ++builds_);
    // Kernel warnings are for clc lint and clc build, which have separate builds. The option is not
    // part of a program's key, because it does not change the program.
    built.program = Program::from_source(context_, device_.id, built.source, built.key.file,
                                         without_warnings(built.key.options));
    config_.hooks.measure("program_cache.build_seconds", build.seconds());
  }
  built.to_store = config_.store != nullptr;
  if (built.to_store && !binary_grows_with_use(device_)) store(built);
}

void ProgramCache::store(Built& built) {
  built.to_store = false;
  try {
    ProgramEntry entry{.functions = {}, .binary = built.program->binary(device_.id)};
    if (binary_grows_with_use(device_)) entry.functions = built.functions;
    config_.store->save(built.key.name(), encode_program_entry(built.key, entry));
  } catch (const std::exception& error) {
    distrust_store(fmt::format("{} cannot be stored: {}", built.key.file, error.what()));
    // Binaries can be expensive to get, and the next one would probably fail too.
    for (auto& [key, other] : built_) {
      other->to_store = false;
    }
  }
}

std::size_t ProgramCache::store_new_programs(double seconds) {
  const auto start = Clock::now();
  std::size_t left = 0;
  bool time_is_up = config_.health != nullptr && config_.health->lost();
  for (auto& [key, built] : built_) {
    if (!built->to_store) continue;
    if (time_is_up) {
      ++left;
      continue;
    }
    store(*built);
    time_is_up = seconds_since(start) >= seconds;
  }
  return left;
}

void ProgramCache::distrust_store(std::string_view what) {
  if (std::exchange(warned_, true)) return;
  config_.hooks.log_message(
      LogLevel::warning,
      fmt::format("program cache: {}; programs are built from source when needed; "
                  "further messages are suppressed",
                  what));
}

}  // namespace clora
