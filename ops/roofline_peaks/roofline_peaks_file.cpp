// The cache of the peaks: one text file per device. A file is valid only if it is exactly the text
// that would be written for its numbers.
#include <array>
#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "clora/ops/roofline_peaks/roofline_peaks.hpp"
#include "clora/runtime/files/digest.hpp"
#include "clora/runtime/files/file.hpp"
#include "runtime/fail.hpp"

namespace clora {
namespace {

struct Field {
  std::string_view name;
  double RooflinePeaks::*value;
  bool may_be_zero = false;
};

constexpr std::array<Field, 7> kFields{{
    {"copy_bytes_per_second", &RooflinePeaks::copy_bytes_per_second},
    {"read_bytes_per_second", &RooflinePeaks::read_bytes_per_second},
    {"f32_flops_per_second", &RooflinePeaks::f32_flops_per_second},
    {"matrix_flops_per_second", &RooflinePeaks::matrix_flops_per_second, true},
    {"barrier_seconds", &RooflinePeaks::barrier_seconds},
    {"launch_seconds", &RooflinePeaks::launch_seconds},
    {"wake_seconds", &RooflinePeaks::wake_seconds},
}};

// The number in the first line is to be raised when the measurement changes.
std::string identity_of(const Device& device) {
  return fmt::format("clora peaks 5\ndevice {}\nplatform {}\ndriver {}\nopencl {}\nunits {}\n",
                     device.name, device.platform, device.driver, device.opencl_version,
                     device.compute_units);
}

std::filesystem::path path_of(const std::filesystem::path& cache_folder, const Device& device) {
  return cache_folder / "peaks" / (digest_of(identity_of(device)).text() + ".txt");
}

std::string text_of(const Device& device, const RooflinePeaks& peaks) {
  std::string text = identity_of(device);
  for (const Field& field : kFields) text += fmt::format("{} {}\n", field.name, peaks.*field.value);
  return text + fmt::format("checksum {}\n", digest_of(text).text());
}

std::optional<double> number_after(std::string_view text, std::string_view name) {
  const std::string start = fmt::format("\n{} ", name);
  const std::size_t at = text.find(start);
  if (at == std::string_view::npos) return {};
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data() + at + start.size(), text.data() + text.size(), value);
  if (error != std::errc()) return {};
  return value;
}

bool makes_sense(const Field& field, double value) {
  return std::isfinite(value) && (value > 0 || (field.may_be_zero && value == 0));
}

std::optional<RooflinePeaks> parse(std::string_view text, const Device& device) {
  RooflinePeaks peaks;
  for (const Field& field : kFields) {
    const auto value = number_after(text, field.name);
    if (!value || !makes_sense(field, *value)) return {};
    peaks.*field.value = *value;
  }
  if (text != text_of(device, peaks)) return {};
  return peaks;
}

}  // namespace

std::optional<RooflinePeaks> stored_peaks(const std::filesystem::path& cache_folder,
                                          const Device& device) {
  if (cache_folder.empty()) return {};
  try {
    const MappedFile file = MappedFile::open(path_of(cache_folder, device));
    const auto bytes = file.bytes();
    return parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, device);
  } catch (const Error&) {  // missing or unreadable: as if there were none
    return {};
  }
}

void store_peaks(const std::filesystem::path& cache_folder, const Device& device,
                 const RooflinePeaks& peaks) {
  const std::filesystem::path path = path_of(cache_folder, device);
  std::error_code error;
  std::filesystem::create_directories(path.parent_path(), error);
  if (error) {
    fail(ErrorCode::io,
         "roofline peaks: folder '{}' cannot be created: {}; set CLORA_CACHE_DIR to another folder",
         path.parent_path().string(), error.message());
  }
  write_file_atomically(path, text_of(device, peaks));
}

}  // namespace clora
