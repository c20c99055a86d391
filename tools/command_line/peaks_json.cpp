#include "tools/command_line/peaks_json.hpp"

namespace clora {

nlohmann::ordered_json peaks_json(const RooflinePeaks& peaks) {
  nlohmann::ordered_json object{{"copy_bytes_per_s", peaks.copy_bytes_per_second},
                                {"read_bytes_per_s", peaks.read_bytes_per_second},
                                {"f32_flops_per_s", peaks.f32_flops_per_second}};
  if (peaks.matrix_flops_per_second > 0) {
    object["matrix_flops_per_s"] = peaks.matrix_flops_per_second;
  }
  object["barrier_seconds"] = peaks.barrier_seconds;
  object["launch_seconds"] = peaks.launch_seconds;
  object["wake_seconds"] = peaks.wake_seconds;
  return object;
}

}  // namespace clora
