// Tests cl/matrix: every unit's header in emulation, through a kernel in a temporary folder,
// against loops in double and against the vendors' documented registers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "ops/dispatch/matrix_unit_self_test.hpp"
#include "runtime/programs/kernel_text.hpp"
#include "tests/support/op_test.hpp"
#include "tests/support/test_files.hpp"

namespace clora {
namespace {

constexpr std::int64_t kSubgroups = 2;
constexpr std::int64_t kTileRows = 32;
constexpr std::int64_t kReadRows = 30;  // of a tile; the others are zeros

constexpr std::string_view kMaps = R"CL(
// element 0 to 3: row of left, K of left, K of right, column of right; map [4, LANES, 16]
// row and column of sums: places [2, LANES, 16]
__attribute__((reqd_work_group_size(LANES, 1, 1)))
__kernel void element_maps(__global int* map, __global int* places) {
  MATRIX_UNIT(unit, 1);
  const uint at = get_local_id(0) * 16, next = LANES * 16;
  for (uint e = 0; e < 2 * LEFT_PAIRS; ++e) {
    map[at + e] = left_row(unit.lane, e);
    map[next + at + e] = left_k(unit.lane, e);
  }
  for (uint e = 0; e < 2 * RIGHT_PAIRS; ++e) {
    map[2 * next + at + e] = right_k(unit.lane, e);
    map[3 * next + at + e] = right_column(unit.lane, e);
  }
  for (uint i = 0; i < SUM_ROWS; ++i) {
    for (uint j = 0; j < SUM_COLUMNS; ++j) {
      places[at + i * SUM_COLUMNS + j] = sum_row(unit, i);
      places[next + at + i * SUM_COLUMNS + j] = sum_column(unit, j);
    }
  }
}
)CL";

// A place of an element in a matrix of 16 x 16, and the register element of a lane.
struct Place {
  std::int64_t row = 0;
  std::int64_t column = 0;
  bool operator==(const Place&) const = default;
};
using Register = std::function<Place(std::int64_t lane, std::int64_t element)>;

// An instruction D = A B + C by its vendor's document, which names rows and columns of A, B and D;
// the number of elements of a lane; and which of the operands holds the left matrix.
struct Instruction {
  std::int64_t operand_elements = 0;
  std::int64_t sum_elements = 0;
  std::int64_t copies = 1;  // lanes that hold an operand's element
  Register a, b, d;
  bool is_transposed = false;  // A holds the right matrix, B the left one, both transposed
};

// PTX ISA, m16n8k16, twice: the fragments of A (a0 to a7), B (b0 to b3) and C (c0 to c3).
Instruction mma_m16n8k16() {
  return {.operand_elements = 8,
          .sum_elements = 8,
          .a = [](auto lane, auto e) -> Place {
            const bool first_rows = e < 2 || (4 <= e && e < 6);
            return {lane / 4 + (first_rows ? 0 : 8), lane % 4 * 2 + e % 2 + (e >= 4 ? 8 : 0)};
          },
          .b = [](auto lane, auto e) -> Place {
            const auto in_half = e % 4;
            return {lane % 4 * 2 + in_half % 2 + (in_half >= 2 ? 8 : 0), lane / 4 + e / 4 * 8};
          },
          .d = [](auto lane, auto e) -> Place {  // v[i][j]: rows, then both halves of columns
            const auto i = e / 4, j = e % 4;
            return {lane / 4 + (i == 0 ? 0 : 8), lane % 4 * 2 + j % 2 + (j < 2 ? 0 : 8)};
          }};
}

// AMD's matrix instruction calculator, CDNA2 and CDNA3.
Instruction mfma_16x16x16() {
  return {.operand_elements = 4,
          .sum_elements = 4,
          .a = [](auto lane, auto e) -> Place {
            return {lane % 16, 4 * (lane / 16) + e};
          },
          .b = [](auto lane, auto e) -> Place {
            return {4 * (lane / 16) + e, lane % 16};
          },
          .d = [](auto lane, auto e) -> Place {
            return {4 * (lane / 16) + e, lane % 16};
          },
          .is_transposed = true};
}

// RDNA3's ISA guide. Row r of A is column 8 (r % 2) + r / 2 of the right matrix.
Instruction wmma_of_gfx11() {
  const auto column_of_row = [](std::int64_t r) { return 8 * (r % 2) + r / 2; };
  return {.operand_elements = 16,
          .sum_elements = 8,
          .copies = 2,
          .a = [=](auto lane, auto e) -> Place {
            return {column_of_row(lane % 16), e};
          },
          .b = [](auto lane, auto e) -> Place {
            return {e, lane % 16};
          },
          .d = [=](auto lane, auto e) -> Place {
            return {column_of_row(2 * e + lane / 16), lane % 16};
          },
          .is_transposed = true};
}

// RDNA4's ISA guide.
Instruction wmma_of_gfx12() {
  return {.operand_elements = 8,
          .sum_elements = 8,
          .a = [](auto lane, auto e) -> Place {
            return {lane % 16, 8 * (lane / 16) + e};
          },
          .b = [](auto lane, auto e) -> Place {
            return {8 * (lane / 16) + e, lane % 16};
          },
          .d = [](auto lane, auto e) -> Place {
            return {8 * (lane / 16) + e, lane % 16};
          },
          .is_transposed = true};
}

// cl_intel_subgroup_matrix_multiply_accumulate, twice: 8 rows of A and D each.
Instruction xmx_of_16_lanes() {
  return {.operand_elements = 16,
          .sum_elements = 16,
          .a = [](auto lane, auto e) -> Place {
            return {e, lane};
          },
          .b = [](auto lane, auto e) -> Place {
            return {e, lane};
          },
          .d = [](auto lane, auto e) -> Place {
            return {e, lane};
          },
          .is_transposed = true};
}

Instruction instruction_of(MatrixUnit unit) {
  switch (unit) {
    case MatrixUnit::mfma:
      return mfma_16x16x16();
    case MatrixUnit::wmma_gfx11:
      return wmma_of_gfx11();
    case MatrixUnit::wmma_gfx12:
      return wmma_of_gfx12();
    case MatrixUnit::xmx:
      return xmx_of_16_lanes();
    default:
      return mma_m16n8k16();
  }
}

Place turned(Place place) { return {place.column, place.row}; }

class Unit : public testing::TestWithParam<MatrixUnit> {
 protected:
  Unit() {
    define_matrix_unit(defines_, {GetParam(), true});
    lanes_ = matrix_unit_lanes({GetParam(), true});
  }

  Grid grid(std::int64_t subgroups) const {
    const auto items = static_cast<std::size_t>(subgroups) * lanes_;
    return Grid{{items, 1, 1}, {items, 1, 1}};
  }

  Context& context() { return test::context_of(Variant::portable); }

  Defines defines_;
  std::uint32_t lanes_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Units, Unit,
                         testing::Values(MatrixUnit::mma, MatrixUnit::mfma, MatrixUnit::wmma_gfx11,
                                         MatrixUnit::wmma_gfx12, MatrixUnit::xmx),
                         [](const auto& unit) { return std::string(name_of(unit.param)); });

// Expects `place` for every lane and element, and that each place of the matrix is held `copies`
// times.
void expect_places(const std::vector<std::int32_t>& rows, const std::vector<std::int32_t>& columns,
                   std::int64_t lanes, std::int64_t elements, std::int64_t copies,
                   const Register& want, const std::string& what) {
  std::map<std::int64_t, std::int64_t> held;
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    for (std::int64_t e = 0; e < elements; ++e) {
      const auto at = static_cast<std::size_t>(lane * 16 + e);
      const Place got{rows[at], columns[at]};
      EXPECT_EQ(got, want(lane, e)) << what << ", lane " << lane << ", element " << e;
      ++held[got.row * 16 + got.column];
    }
  }
  EXPECT_EQ(held.size(), 256U) << what;
  for (const auto& [place, count] : held) EXPECT_EQ(count, copies) << what << " at " << place;
}

TEST_P(Unit, HoldsElementsInTheRegistersOfTheVendorsDocument) {
  const test::TemporaryFolder folder;
  ContextConfig config = config_from_environment();
  test::write_file(folder / "maps.cl",
                   kernel_text("matrix_unit.clh", config.kernel_folders) + std::string(kMaps));
  config.kernel_folders = {folder.path()};
  config.variant = Variant::portable;
  Context context(config);
  const std::int64_t places = std::int64_t{lanes_} * 16;
  const Tensor map = context.allocate({4, places}, DType::i32, MemoryTag::scratch);
  const Tensor sums = context.allocate({2, places}, DType::i32, MemoryTag::scratch);
  Batch batch(context);
  batch.launch({context.kernel("maps.cl", "element_maps", defines_), grid(1), {}, "maps"}, map,
               sums);
  batch.submit().wait();
  const auto read = [&](const Tensor& tensor) {
    std::vector<std::vector<std::int32_t>> rows;
    std::vector<std::int32_t> all(static_cast<std::size_t>(tensor.elements()));
    context.read(tensor, std::as_writable_bytes(std::span(all)));
    for (auto at = all.begin(); at != all.end(); at += places) rows.emplace_back(at, at + places);
    return rows;
  };
  const auto of = read(map), of_sums = read(sums);
  const Instruction unit = instruction_of(GetParam());
  const Register& left = unit.is_transposed ? unit.b : unit.a;
  const Register& right = unit.is_transposed ? unit.a : unit.b;
  const auto in_order = [&](const Register& place) -> Register {
    return [&](auto lane, auto e) {
      return unit.is_transposed ? turned(place(lane, e)) : place(lane, e);
    };
  };
  expect_places(of[0], of[1], lanes_, unit.operand_elements, unit.copies, in_order(left), "left");
  expect_places(of[2], of[3], lanes_, unit.operand_elements, unit.copies, in_order(right), "right");
  expect_places(of_sums[0], of_sums[1], lanes_, unit.sum_elements, 1, in_order(unit.d), "sums");
}

double rounded(double value) { return test::rounded_to_bf16({value}).front(); }

using Matrix = std::vector<double>;  // row-major

// c [16, 16] of left(i, s) right(s, j), s < K.
template <class L, class R>
Matrix product(std::int64_t K, L left, R right) {
  Matrix c;
  for (std::int64_t i = 0; i < 16; ++i) {
    for (std::int64_t j = 0; j < 16; ++j) {
      double sum = 0;
      for (std::int64_t s = 0; s < K; ++s) sum += left(i, s) * right(s, j);
      c.push_back(sum);
    }
  }
  return c;
}

// Integers: every sum is exact, in any order.
std::vector<float> small_integers(std::int64_t count, std::uint32_t seed) {
  std::vector<float> values = test::random_values(static_cast<std::size_t>(count), seed, 5);
  std::ranges::transform(values, values.begin(), [](float x) { return std::trunc(x); });
  return values;
}

TEST_P(Unit, LoadsMultipliesRoundsAndReducesAsLoopsInDouble) {
  for (const std::int64_t chunks : {2, 4, 8, 16}) {
    const std::string with = std::to_string(chunks) + " chunks";
    const std::int64_t columns = 8 * chunks, blocks = chunks / 2;
    std::vector<float> a = small_integers(kTileRows * columns, 1);
    std::vector<float> b = small_integers(kTileRows * columns, 2);
    const Tensor a_bf16 = test::upload_bf16(context(), {kTileRows, columns}, a);
    const Tensor b_bf16 = test::upload_bf16(context(), {kTileRows, columns}, b);
    const auto read_a = [all = a, columns](std::int64_t row, std::int64_t column) {
      return double{all[static_cast<std::size_t>(row * columns + column)]};
    };
    std::fill(a.begin() + kReadRows * columns, a.end(), 0.0F);
    std::fill(b.begin() + kReadRows * columns, b.end(), 0.0F);
    const test::Output got(context(), {kSubgroups, 256}), chained(context(), {kSubgroups, 256}),
        got_turned(context(), {kSubgroups * blocks, 256}),
        stored(context(), {kSubgroups, 256}, DType::bf16), joined(context(), {kSubgroups, 256}),
        statistics(context(), {kSubgroups, 16, 4, 2});
    Batch batch(context());
    batch.launch({context().kernel("matrix_unit_check.cl", "matrix_unit_products", defines_),
                  grid(kSubgroups),
                  {},
                  "p"},
                 got.tensor(), got_turned.tensor(), chained.tensor(), stored.tensor(),
                 joined.tensor(), statistics.tensor(), a_bf16, b_bf16,
                 static_cast<std::uint32_t>(chunks), static_cast<std::uint32_t>(kReadRows));
    batch.submit().wait();
    const auto of = [&](const std::vector<float>& x, std::int64_t row, std::int64_t column) {
      return double{x[static_cast<std::size_t>(row * columns + column)]};
    };
    Matrix want, want_chained, want_turned;
    for (std::int64_t g = 0; g < kSubgroups; ++g) {
      const Matrix plain = product(
          columns, [&](auto i, auto s) { return of(a, 16 * g + i, s); },
          [&](auto s, auto j) { return of(b, 16 * (1 - g) + j, s); });
      want.insert(want.end(), plain.begin(), plain.end());
      const Matrix chain = product(
          16, [&](auto i, auto s) { return rounded(plain[static_cast<std::size_t>(i * 16 + s)]); },
          [&](auto s, auto j) { return of(b, 16 * g + s, j); });
      want_chained.insert(want_chained.end(), chain.begin(), chain.end());
      for (std::int64_t n = 0; n < blocks; ++n) {
        const Matrix block = product(
            kTileRows, [&](auto i, auto s) { return of(a, s, 16 * n + i); },
            [&](auto s, auto j) { return of(b, s, 16 * ((n + g) % blocks) + j); });
        want_turned.insert(want_turned.end(), block.begin(), block.end());
      }
    }
    EXPECT_EQ(test::to_double(got.values()), want) << "load_left, load_right, " << with;
    EXPECT_EQ(test::to_double(got_turned.values()), want_turned) << "transposed loads, " << with;
    EXPECT_EQ(test::to_double(chained.values()), want_chained) << "left_of_sums, " << with;
    const std::vector<float> got_stored = stored.values(), got_joined = joined.values();
    for (std::size_t at = 0; at < want.size(); ++at) {
      const auto row = static_cast<std::int64_t>(at / 16),
                 column = static_cast<std::int64_t>(at % 16);
      const bool in_row = column < 24 - 16 * (row / 16);
      EXPECT_EQ(std::isnan(got_stored[at]), !in_row) << "store_row_bf16 at " << at;
      if (in_row) {
        EXPECT_EQ(double{got_stored[at]}, rounded(want[at])) << "store_row_bf16 at " << at;
      }
      const double sum = want[at] + read_a(row, column);
      EXPECT_EQ(double{got_joined[at]}, in_row ? sum : 0.0) << "rows of f32 at " << at;
    }
    const std::vector<float> rows = statistics.values();
    for (std::int64_t row = 0; row < kSubgroups * 16; ++row) {
      const auto begin = want.begin() + row * 16;
      for (std::int64_t lane = 0; lane < 4; ++lane) {
        const auto at = static_cast<std::size_t>((row * 4 + lane) * 2);
        EXPECT_EQ(rows[at], *std::max_element(begin, begin + 16)) << "row_max, row " << row;
        EXPECT_EQ(rows[at + 1], std::accumulate(begin, begin + 16, 0.0)) << "row_sum, " << row;
      }
    }
  }
}

// The self-test of a unit compares the same outputs, so they are all finite.
TEST_P(Unit, PassesTheCheckOfADeviceWithItsEmulation) {
  SelfTest test(context());
  record_matrix_unit_check(test, {GetParam(), true});
  const std::vector<SelfTestResult> results = test.run();
  ASSERT_EQ(results.size(), 6U);
  for (const SelfTestResult& result : results) {
    for (const float value : result.floats()) EXPECT_TRUE(std::isfinite(value));
  }
  const auto known = known_self_test_sums(self_test_key("matrix_unit", test.digest()));
  ASSERT_TRUE(known.has_value()) << self_test_key("matrix_unit", test.digest()) << " "
                                 << self_test_sums(results);
  EXPECT_TRUE(have_sums(results, *known, kF32Tolerance));
}

TEST(MatrixUnitDefines, AskIntelsCompilerForAllRegisters) {
  Defines real, emulated, of_amd;
  EXPECT_NE(define_matrix_unit(real, {MatrixUnit::xmx}).text().find("256-GRF"), std::string::npos);
  EXPECT_EQ(define_matrix_unit(emulated, {MatrixUnit::xmx, true}).text().find("-cl"),
            std::string::npos);
  EXPECT_EQ(define_matrix_unit(of_amd, {MatrixUnit::mfma}).text().find("-cl"), std::string::npos);
}

}  // namespace
}  // namespace clora
