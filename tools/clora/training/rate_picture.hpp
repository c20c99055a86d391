// The curve of a learning rate search as an SVG chart: the change of the loss over the logarithm of
// the rate, with the suggestion marked. Legible on light and dark pages. Pure; thread-safe.
#pragma once

#include <string>

#include "clora/model/training/rate_search.hpp"

namespace clora {

// A complete SVG document of 720 x 400. REQUIRES: search has a point.
std::string rate_picture(const RateSearch& search, const std::string& title);

}  // namespace clora
