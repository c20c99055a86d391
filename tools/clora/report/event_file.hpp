// Event files of TensorBoard: the numbers of a run's events as scalars.
//
// A file is a sequence of TFRecords (length, masked CRC-32C of the length, data, masked CRC-32C of
// the data; little-endian), each of which holds a protocol buffer of type tensorflow.Event. Format:
// tensorflow/core/lib/io/record_writer.h and tensorflow/core/util/event.proto, summary.proto.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace clora {

// The CRC of Castagnoli (iSCSI, RFC 3720). Pure.
std::uint32_t crc32c(std::string_view bytes);
// Data as a TFRecord. Pure.
std::string tf_record(std::string_view data);

using Scalars = std::vector<std::pair<std::string, double>>;

// The numbers of an event by tags: "train/loss" of steps, "eval/loss" of evaluations, and of others
// "EVENT/FIELD". Norms are "norms by module/q_proj" and "norms by block/0". Pure.
Scalars scalars_of(const nlohmann::ordered_json& event);

// The bytes of a tensorflow.Event. Values are stored as f32. Pure.
std::string scalars_event(double unix_seconds, std::int64_t step, const Scalars& scalars);
std::string version_event(double unix_seconds);
// Makes readers drop what earlier files of the folder have of this step and later ones.
std::string restart_event(double unix_seconds, std::int64_t step);

class EventFile {
 public:
  // Creates the folder and a new file in it, for a run whose first step is `first_step`.
  // Errors: io.
  EventFile(const std::filesystem::path& folder, std::int64_t first_step);
  // Appends the event's numbers and flushes; no-op for an event without a step. Errors: io.
  void add(const nlohmann::ordered_json& event);

 private:
  void write(std::string_view data);

  std::filesystem::path path_;
  std::ofstream stream_;
};

}  // namespace clora
