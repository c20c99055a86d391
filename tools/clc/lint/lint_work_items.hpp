// Classifies the built-in functions of OpenCL C by name: non-uniform, bounded by the work-group,
// collective.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

namespace clora {

// Whether the result differs between the work-items of a work-group.
inline bool differs_by_item(std::string_view function) {
  constexpr std::array<std::string_view, 6> names{"get_local_id",           "get_global_id",
                                                  "get_local_linear_id",    "get_global_linear_id",
                                                  "get_sub_group_local_id", "get_sub_group_id"};
  return std::ranges::find(names, function) != names.end() || function.starts_with("atomic_") ||
         function.starts_with("atom_");
}

// Whether the result is bounded by the size of a work-group.
inline bool is_within_a_group(std::string_view function) {
  constexpr std::array<std::string_view, 8> names{"get_local_id",        "get_local_size",
                                                  "get_local_linear_id", "get_sub_group_id",
                                                  "get_sub_group_size",  "get_max_sub_group_size",
                                                  "get_num_sub_groups",  "get_sub_group_local_id"};
  return std::ranges::find(names, function) != names.end();
}

inline bool is_barrier(std::string_view function) {
  return function == "barrier" || function == "work_group_barrier";
}

// Whether all work-items of a work-group must call the function, as for a barrier.
inline bool joins_items(std::string_view function) {
  return is_barrier(function) || function.starts_with("async_work_group_") ||
         function == "wait_group_events" || function.starts_with("work_group_");
}

}  // namespace clora
