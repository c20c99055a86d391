// The choice among the implementations of an op family (ops/dispatch/implementation.hpp).
#include "ops/dispatch/implementation.hpp"

#include <gtest/gtest.h>

#include <array>
#include <set>

#include "ops/gemm/gemm_dispatch.hpp"
#include "tests/support/op_test.hpp"

namespace clora {
namespace {

// A problem is a size. `tested` counts the self-tests that ran.
struct Toy {
  std::string_view name, file;
  const char* (*refusal)(const Context&, const int&);
  bool (*passed)(Context&, const int&);
};

int tested = 0;
const char* refuse_odd(const Context&, const int& n) { return n % 2 == 0 ? nullptr : "n is odd"; }
const char* refuse_nothing(const Context&, const int&) { return nullptr; }
bool pass(Context&, const int&) { return ++tested > 0; }
bool pass_up_to_10(Context&, const int& n) { return ++tested > 0 && n <= 10; }

constexpr std::array<Toy, 3> kToys{Toy{"even", "even.cl", refuse_odd, pass_up_to_10},
                                   Toy{"small", "small.cl", refuse_nothing, pass_up_to_10},
                                   Toy{"portable", "toy.cl", refuse_nothing, pass}};

class ChooseImplementation : public testing::Test {
 protected:
  static std::string_view chosen(int n) {
    tested = 0;
    return choose_implementation(test::context_of(Variant::portable), std::span<const Toy>(kToys),
                                 n)
        .name;
  }
};

TEST_F(ChooseImplementation, TakesTheFirstThatSupportsTheProblem) {
  EXPECT_EQ(chosen(4), "even");
  EXPECT_EQ(chosen(5), "small");
}

TEST_F(ChooseImplementation, TestsOnlyThoseThatSupportTheProblem) {
  (void)chosen(5);
  EXPECT_EQ(tested, 1);
}

TEST_F(ChooseImplementation, PassesOverThoseThatFailTheirSelfTest) {
  EXPECT_EQ(chosen(12), "portable");
  EXPECT_EQ(tested, 2) << "the last one needs no test";
}

TEST(GemmImplementations, AreNamedDifferentlyAndEndWithThePortableOne) {
  std::set<std::string_view> names;
  for (const GemmImplementation& each : gemm_implementations()) names.insert(each.name);
  EXPECT_EQ(names.size(), gemm_implementations().size());
  EXPECT_EQ(gemm_implementations().back().name, "portable");
}

TEST(GemmImplementations, OfThePortableVariantAreThePortableOnes) {
  Context& context = test::context_of(Variant::portable);
  for (const std::int64_t rows : {1, 200}) {
    const GemmProduct p{.y = context.allocate({rows, 64}, DType::f32, MemoryTag::scratch),
                        .x = context.allocate({rows, 64}, DType::f32, MemoryTag::scratch),
                        .w = context.allocate({64, 64}, DType::f32, MemoryTag::scratch),
                        .addend = {},
                        .bias = {},
                        .low_rank = {}};
    EXPECT_EQ(choose_gemm(context, p).name, rows == 1 ? "skinny" : "portable");
  }
}

}  // namespace
}  // namespace clora
