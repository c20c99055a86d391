// Launch grids that several op families share: rows given out whole, or a flat range of elements.
// Pure functions of the device and the sizes.
#pragma once

#include "runtime/batch.hpp"

namespace clora {

// cpu variant: work-groups of one item that share `rows` rows evenly (cl/group_range.clh), about
// four a compute unit: few enough to be fat, enough that an unlucky core does not hold up the rest.
// REQUIRES (all here): at least one row or element.
Grid cpu_rows_grid(const Device& device, std::int64_t rows);

// cpu variant of elementwise ops: the same over the flat range, with no group below a few
// thousand elements.
Grid cpu_flat_grid(const Device& device, std::int64_t elements);

// portable variant: one work-group a row. Its size is a power of two near the row's width, so that
// a tree reduction over local memory of one float an item works out.
struct RowGroups {
  Grid grid;
  LocalMemory scratch;
};
RowGroups portable_rows_grid(const Device& device, std::int64_t rows, std::int64_t width);

// portable variant of elementwise ops: one work-item an element, rounded up to whole groups; the
// kernel guards the end.
Grid portable_flat_grid(const Device& device, std::int64_t elements);

}  // namespace clora
