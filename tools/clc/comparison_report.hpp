// How commands ask for a comparison and tell of it.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "tools/clc/comparison.hpp"
#include "tools/command_line/output.hpp"

namespace clora {

// --atol, --rtol and --ulp.
void add_tolerance_options(CLI::App& command, Tolerance& tolerance);

// Two arrays that were compared, "y and ref.npy" for people.
struct ComparedArrays {
  std::string text;
  const HostArray& got;
  const HostArray& wanted;
};

// Equal, or how many elements are above the tolerance, the greatest errors and the worst place.
void tell(Output& output, const ComparedArrays& arrays, const Tolerance& tolerance,
          const Comparison& found);

// The same for programs.
nlohmann::ordered_json json_of(const ComparedArrays& arrays, const Tolerance& tolerance,
                               const Comparison& found);

}  // namespace clora
