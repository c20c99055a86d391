// The launch of a row-wise or elementwise kernel in the Context's variant. Such families have the
// kernel `function` with the same arguments in two files, STEM_cpu.cl and STEM.cl; here the file,
// its options and the grid are decided. Cost and label are left to the caller. `self_test` is the
// function's (ops/variant_choice.hpp).
#pragma once

#include <string_view>

#include "ops/variant_choice.hpp"
#include "runtime/batch.hpp"

namespace clora {

// Rows owned whole. cpu: groups of one item share the rows evenly (cl/group_range.clh). portable:
// a group of GROUP items (-D) takes row get_group_id(0) and every get_num_groups(0)-th after it;
// GROUP, a power of two, follows the width.
// REQUIRES: rows and width at least 1.
Launch rows_launch(Context& context, std::string_view stem, std::string_view function,
                   std::int64_t rows, std::int64_t width, const SelfTestRecord& self_test);

// A flat range. cpu: groups of one item share it evenly. portable: one work-item an element,
// rounded up to whole groups, so the kernel guards the end.
// REQUIRES: at least one element.
Launch flat_launch(Context& context, std::string_view stem, std::string_view function,
                   std::int64_t elements, const SelfTestRecord& self_test);

}  // namespace clora
