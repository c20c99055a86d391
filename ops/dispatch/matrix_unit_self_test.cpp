#include "ops/dispatch/matrix_unit_self_test.hpp"

namespace clora {

void record_matrix_unit_check(SelfTest& test, MatrixUnitChoice unit) {
  constexpr std::int64_t kRows = 32, kChunks = 8, kSubgroups = 2, kBlocks = kChunks / 2;
  constexpr std::uint32_t kReadRows = 30;
  Context& context = test.batch().context();
  const Tensor a = test.input({kRows, 8 * kChunks}, 1, DType::bf16);
  const Tensor b = test.input({kRows, 8 * kChunks}, 1, DType::bf16);
  const Tensor product = test.output({kSubgroups, 16, 16});
  const Tensor turned = test.output({kSubgroups, kBlocks, 16, 16});
  const Tensor chained = test.output({kSubgroups, 16, 16});
  const Tensor stored = test.changed(test.input({kSubgroups, 16, 16}, 1, DType::bf16));
  const Tensor joined = test.output({kSubgroups, 16, 16});
  const Tensor statistics = test.output({kSubgroups, 16, 8});
  Defines defines;
  define_matrix_unit(defines, unit);
  const std::size_t items = kSubgroups * std::size_t{matrix_unit_lanes(unit)};
  test.batch().launch(
      {.kernel = context.kernel("matrix_unit_check.cl", "matrix_unit_products", std::move(defines)),
       .grid = {{items, 1, 1}, {items, 1, 1}},
       .cost = {},
       .label = "matrix_unit"},
      product, turned, chained, stored, joined, statistics, a, b,
      static_cast<std::uint32_t>(kChunks), kReadRows);
}

bool matrix_unit_passed(Context& context) {
  const MatrixUnitChoice unit = matrix_unit_of(context);
  Defines defines;
  define_matrix_unit(defines, unit);
  const std::string options = defines.text();
  const FastKernel kernel{.file = kMatrixUnitCheck,
                          .name = "matrix_unit",
                          .tolerance = kBf16Tolerance,
                          .options = options};
  return passed_self_test(context, kernel, [unit](SelfTest& test) {
    const bool emulated = makes_reference(test.batch().context());
    record_matrix_unit_check(test, {unit.unit, emulated});
  });
}

}  // namespace clora
