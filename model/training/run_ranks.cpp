#include "model/training/run_ranks.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "clora/model/training/rank_shares.hpp"
#include "clora/runtime/files/digest.hpp"
#include "runtime/fail.hpp"
#include "runtime/parse_integer.hpp"

namespace clora {
namespace {

// Settings that follow from a device, or from its memory.
constexpr std::array<std::string_view, 4> kOfDevice{
    "precision", "kernel variant", "rows of a feed-forward tile", "type of saved activations"};

Fingerprint without_those_of_device(Fingerprint fingerprint) {
  std::erase_if(fingerprint, [](const FingerprintSetting& setting) {
    return std::ranges::find(kOfDevice, setting.name) != kOfDevice.end();
  });
  return fingerprint;
}

std::string text_of(const std::vector<std::int64_t>& shares) {
  return fmt::format("{}", fmt::join(shares, ","));
}

// The opposite, for so many ranks.
std::vector<std::int64_t> parsed_shares(std::string_view text, std::size_t ranks) {
  std::vector<std::int64_t> shares;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    shares.push_back(parse_integer(text.substr(begin, end - begin)).value_or(0));
    begin = end + 1;
  }
  if (shares.size() == ranks && std::ranges::all_of(shares, [](auto s) { return s > 0; })) {
    return shares;
  }
  fail(ErrorCode::invalid_file, "checkpoint: the shares of {} devices must be above 0, got '{}'",
       ranks, text.substr(0, 40));
}

// |a - b| / |b|, Euclidean. Both as bytes of f32.
double relative_difference(std::string_view a, std::string_view b) {
  double difference = 0, norm = 0;
  for (std::size_t at = 0; at + sizeof(float) <= std::min(a.size(), b.size());
       at += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, &a[at], sizeof x);
    std::memcpy(&y, &b[at], sizeof y);
    difference += std::pow(static_cast<double>(x) - static_cast<double>(y), 2);
    norm += std::pow(static_cast<double>(y), 2);
  }
  return norm == 0 ? difference : std::sqrt(difference / norm);
}

[[noreturn]] void fail_at(std::size_t rank, std::int64_t step, std::string_view how) {
  fail(ErrorCode::invalid_data,
       "ranks: after step {} the adapter of rank {} is not that of rank 0 ({}), so a device or a "
       "transfer is at fault; resume from the last checkpoint, without the device of rank {} if "
       "this happens again",
       step, rank, how, rank);
}

}  // namespace

RunRanks::RunRanks(Communicator* ranks, const LanguageModel& model) : ranks_(ranks) {
  if (ranks_ == nullptr) return;
  const Device& device = model.context().device();
  devices_.devices = ranks_->all_gather(device.name + ", " + device.driver);
  gather_blocks(model);
}

void RunRanks::gather_blocks(const LanguageModel& model) {
  const auto gathered = [&](std::int64_t block) {
    return gather_values(*ranks_, static_cast<double>(block));
  };
  const std::vector<double> begins = gathered(model.range().begin),
                            ends = gathered(model.range().end);
  const BlockRange all = all_blocks(model.config());
  std::vector<BlockRange> blocks;
  for (std::size_t rank = 0; rank < begins.size(); ++rank) {
    blocks.push_back({std::llround(begins[rank]), std::llround(ends[rank])});
  }
  if (std::ranges::all_of(blocks, [&](const BlockRange& range) { return range == all; })) return;
  std::int64_t end = 0;
  for (std::size_t rank = 0; rank < blocks.size(); ++rank) {
    require(blocks[rank].begin == end,
            "ranks: the model is split by layers, so the blocks of rank {} must begin with {}, got "
            "{}",
            rank, end, blocks[rank].begin);
    end = blocks[rank].end;
  }
  require(end == all.end, "ranks: the model has {} blocks, but the last rank's end with {}",
          all.end, end);
  devices_.blocks = std::move(blocks);
}

bool RunRanks::are_alike() const {
  return std::ranges::all_of(devices_.devices,
                             [&](const auto& name) { return name == devices_.devices.front(); });
}

void RunRanks::require_same_run(const Fingerprint& fingerprint) const {
  if (ranks_ == nullptr) return;
  const std::vector<std::string> all =
      ranks_->all_gather(to_json(are_alike() ? fingerprint : without_those_of_device(fingerprint)));
  const Fingerprint first = fingerprint_from_json(all.front(), "ranks: the settings of rank 0");
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    const Fingerprint other = fingerprint_from_json(all[rank], "ranks: the settings of a rank");
    fail(ErrorCode::invalid_argument,
         "ranks: all must train the same, but from rank 0 to rank {}: {}; start them with the same "
         "options, model and data",
         rank, fmt::join(differences(first, other), "; "));
  }
}

void RunRanks::require_same_parameters(const Adapter& adapter, std::int64_t step) const {
  if (ranks_ == nullptr) return;
  const std::vector<float> parameters = adapter.context().read<float>(adapter.parameters());
  const auto bytes = std::as_bytes(std::span(parameters));
  if (are_alike()) {
    const std::vector<std::string> all = ranks_->all_gather(digest_of(bytes).text());
    const auto other =
        std::ranges::find_if(all, [&](const auto& digest) { return digest != all.front(); });
    if (other != all.end()) {
      fail_at(static_cast<std::size_t>(other - all.begin()), step, "its checksum is another one");
    }
    return;
  }
  constexpr double kRounding = 1e-3;  // of some thousand updates that are rounded differently
  const std::string_view own(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string first = ranks_->all_gather(is_first() ? own : std::string_view()).front();
  const std::vector<double> differences = gather_values(*ranks_, relative_difference(own, first));
  for (std::size_t rank = 1; rank < differences.size(); ++rank) {
    if (differences[rank] <= kRounding) continue;
    fail_at(rank, step, fmt::format("it differs by {:.1e} of its norm", differences[rank]));
  }
}

std::vector<std::int64_t> RunRanks::measured_shares(Trainer& trainer, const PackedRows& micro_batch,
                                                    std::int64_t count) const {
  const std::vector<double> seconds = gather_values(*ranks_, trainer.gradient_seconds(micro_batch));
  std::vector<std::int64_t> shares = shares_by_speed(seconds, count);
  const auto idle = std::ranges::find(shares, 0);
  require(idle == shares.end(),
          "ranks: '{}' would compute none of the {} micro-batches of a step: it takes {:.3g} s for "
          "one, and the fastest device {:.3g} s; raise `grad_accumulation`, leave the device out, "
          "or set `device_shares`",
          devices_.devices[static_cast<std::size_t>(idle - shares.begin())], count,
          seconds[static_cast<std::size_t>(idle - shares.begin())], std::ranges::min(seconds));
  return shares;
}

const DeviceShares* RunRanks::choose_shares(Trainer& trainer, const PackedRows& micro_batch,
                                            std::int64_t count,
                                            const std::vector<std::int64_t>& wanted,
                                            const Fingerprint& checkpoint) {
  if (ranks_ == nullptr) return nullptr;
  if (!devices_.blocks.empty()) return &devices_;
  const std::string stored(value_of(checkpoint, kSharesSetting));
  const std::size_t ranks = devices_.devices.size();
  if (!wanted.empty()) {
    require(wanted.size() == ranks, "ranks: `device_shares` must name {} shares, got {}", ranks,
            wanted.size());
    require(std::ranges::all_of(wanted, [](std::int64_t share) { return share > 0; }),
            "ranks: `device_shares` must be above 0, got {}", text_of(wanted));
    devices_.shares = wanted;
  } else if (!stored.empty() &&
             value_of(checkpoint, kDevicesSetting) == value_of(settings(), kDevicesSetting)) {
    devices_.shares = parsed_shares(stored, ranks);
  } else if (are_alike()) {
    devices_.shares.assign(ranks, 1);
  } else {
    devices_.shares = measured_shares(trainer, micro_batch, count);
    devices_.measured = true;
  }
  trainer.set_shares(devices_.shares);
  return &devices_;
}

std::vector<double> RunRanks::idle_shares(const Trainer& trainer) const {
  if (devices_.blocks.empty()) return {};
  const StageSeconds own = trainer.stage_seconds();
  const std::vector<double> totals = gather_values(*ranks_, own.total);
  const std::vector<double> busy = gather_values(*ranks_, own.total - own.waited);
  const double total = std::ranges::max(totals);
  std::vector<double> shares;
  for (const double seconds : busy) shares.push_back(total > 0 ? 1 - seconds / total : 0);
  return shares;
}

Fingerprint RunRanks::settings() const {
  if (ranks_ == nullptr) return {};
  return {{kDevicesSetting, fmt::format("{}", fmt::join(devices_.devices, "; "))},
          {kSharesSetting, text_of(devices_.shares)}};
}

}  // namespace clora
