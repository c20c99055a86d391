#include "tools/clora/report/event_file.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <nlohmann/json.hpp>

#include "runtime/fail.hpp"
#include "runtime/make_folder.hpp"
#include "tools/clora/report/run_charts.hpp"
#include "tools/clora/report/run_record.hpp"

namespace clora {
namespace {

template <class Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i));
  return bytes;
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8U;
}

// The wire format of protocol buffers: a key (field number and type), then the value.
enum class Wire : std::uint8_t { varint = 0, bits64 = 1, bytes = 2, bits32 = 5 };

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
  return bytes + static_cast<char>(value);
}

std::string key(std::uint64_t field, Wire wire) {
  return varint(field << 3 | static_cast<std::uint64_t>(wire));
}
std::string integer_field(std::uint64_t field, std::int64_t value) {
  return key(field, Wire::varint) + varint(static_cast<std::uint64_t>(value));
}
std::string double_field(std::uint64_t field, double value) {
  return key(field, Wire::bits64) + little_endian(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(std::uint64_t field, double value) {
  return key(field, Wire::bits32) +
         little_endian(std::bit_cast<std::uint32_t>(static_cast<float>(value)));
}
std::string bytes_field(std::uint64_t field, std::string_view bytes) {
  return key(field, Wire::bytes) + varint(bytes.size()) + std::string(bytes);
}

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr std::uint64_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr std::uint64_t kValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
constexpr std::int64_t kStatusStart = 1;

double unix_seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string file_name(double seconds) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host = {'h', 'o', 's', 't'};
  return fmt::format("events.out.tfevents.{:.0f}.{}.{}", seconds, host.data(), ::getpid());
}

std::string tag_prefix(std::string_view event) {
  return event == "step" ? "train" : std::string(event);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // bits reversed
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? kPolynomial : 0);
  }
  return ~crc;
}

std::string tf_record(std::string_view data) {
  const std::string length = little_endian(std::uint64_t{data.size()});
  return length + little_endian(masked_crc(length)) + std::string(data) +
         little_endian(masked_crc(data));
}

Scalars scalars_of(const nlohmann::ordered_json& event) {
  RunRecord record;
  record.add(event);
  Scalars scalars;
  for (const Series& series : record.series()) {
    scalars.emplace_back(tag_prefix(series.event) + "/" + series.group +
                             (series.name.empty() ? "" : "/" + series.name),
                         series.points.back().value);
  }
  for (const NormsAtStep& norms : record.norms()) {
    for (const auto& [target, norm] : norms_by_target(norms)) {
      scalars.emplace_back("norms by module/" + target, norm);
    }
    for (const auto& [block, norm] : norms_by_block(norms)) {
      scalars.emplace_back("norms by block/" + (block.empty() ? "other" : block), norm);
    }
  }
  return scalars;
}

std::string scalars_event(double unix_seconds, std::int64_t step, const Scalars& scalars) {
  std::string summary;
  for (const auto& [tag, value] : scalars) {
    summary += bytes_field(kValue, bytes_field(kTag, tag) + float_field(kSimpleValue, value));
  }
  return double_field(kWallTime, unix_seconds) + integer_field(kStep, step) +
         bytes_field(kSummary, summary);
}

std::string version_event(double unix_seconds) {
  return double_field(kWallTime, unix_seconds) + bytes_field(kFileVersion, "brain.Event:2");
}

std::string restart_event(double unix_seconds, std::int64_t step) {
  return double_field(kWallTime, unix_seconds) + integer_field(kStep, step) +
         bytes_field(kSessionLog, integer_field(kStatus, kStatusStart));
}

EventFile::EventFile(const std::filesystem::path& folder, std::int64_t first_step) {
  const double now = unix_seconds_now();
  make_folder(folder, "train: --tensorboard");
  path_ = folder / file_name(now);
  stream_.open(path_, std::ios::binary);
  write(version_event(now));
  write(restart_event(now, first_step));
}

void EventFile::add(const nlohmann::ordered_json& event) {
  const Scalars scalars = scalars_of(event);
  if (scalars.empty()) return;
  write(scalars_event(unix_seconds_now(), event.at("step").get<std::int64_t>(), scalars));
}

void EventFile::write(std::string_view data) {
  stream_ << tf_record(data) << std::flush;
  if (!stream_) fail(ErrorCode::io, "train: '{}' cannot be written", path_.string());
}

}  // namespace clora
