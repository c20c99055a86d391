#include "tools/command_line/ceilings_json.hpp"

namespace clora {

nlohmann::ordered_json ceilings_json(const Ceilings& ceilings) {
  nlohmann::ordered_json object{{"copy_bytes_per_s", ceilings.copy_bytes_per_second},
                                {"read_bytes_per_s", ceilings.read_bytes_per_second},
                                {"f32_flops_per_s", ceilings.f32_flops_per_second}};
  if (ceilings.matrix_flops_per_second > 0) {
    object["matrix_flops_per_s"] = ceilings.matrix_flops_per_second;
  }
  object["barrier_seconds"] = ceilings.barrier_seconds;
  object["launch_seconds"] = ceilings.launch_seconds;
  object["wake_seconds"] = ceilings.wake_seconds;
  return object;
}

}  // namespace clora
