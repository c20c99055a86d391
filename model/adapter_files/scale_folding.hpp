// The one scale of a format, and the multiplication of B for modules with another one. Private to
// model/adapter_files. Pure functions; thread-safe.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "clora/model/adapter_files/conversion_notes.hpp"

namespace clora {

// The value that occurs most often, the first of several; 0 only if all are 0. Needs one value.
double most_frequent_nonzero(std::span<const double> values);

// b *= factor, noted unless it is 1. `path`: the module. Errors: invalid_data, naming the module,
// for a product that is not finite.
void fold_scale(std::vector<float>& b, double factor, std::string_view path,
                ConversionNotes& notes);

}  // namespace clora
