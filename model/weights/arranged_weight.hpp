// A matrix that another program quantised: its rows are arranged in blocks of one of clora's types
// when they are read, so that loading needs memory for a part of a tensor only. Private to model/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "clora/model/weights/weights.hpp"

namespace clora {

struct ArrangedWeight {
  // The tensors of the file, which keep their mappings alive.
  std::vector<WeightView> sources;
  // out = rows [first_row, ...) in blocks of the view's type, as many as fit. REQUIRES: out holds
  // an integral number of existing rows.
  std::function<void(std::span<std::byte> out, std::int64_t first_row)> copy_rows;
};

}  // namespace clora
