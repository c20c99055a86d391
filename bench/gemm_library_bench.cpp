// gemm/library_NAME/forward/f32/M x N x K: the same products by CLBlast, through a batch's library
// call, and by Eigen on the host: what gemm_bench.cpp's figures compare with in one run.
#include <benchmark/benchmark.h>
#include <clblast.h>
#include <fmt/format.h>

#include <Eigen/Dense>

#include "bench/support/op_bench.hpp"
#include "ops/gemm.hpp"
#include "runtime/error.hpp"

namespace clora {
namespace {

struct Size {
  std::int64_t m, n, k;
  std::string text() const { return fmt::format("{}x{}x{}", m, n, k); }
};

struct Operands {
  explicit Operands(const Size& s)
      : x(bench::random_values(static_cast<std::size_t>(s.m * s.k), 1)),
        w(bench::random_values(static_cast<std::size_t>(s.n * s.k), 2)) {}
  std::vector<float> x, w;
};

// The last row of y = x w^T in double.
std::vector<double> last_row(const Size& s, const Operands& o) {
  std::vector<double> row(static_cast<std::size_t>(s.n));
  const float* x = &o.x[static_cast<std::size_t>((s.m - 1) * s.k)];
  for (std::size_t n = 0; n < row.size(); ++n) {
    for (std::size_t k = 0; k < static_cast<std::size_t>(s.k); ++k) {
      row[n] += static_cast<double>(x[k]) *
                static_cast<double>(o.w[n * static_cast<std::size_t>(s.k) + k]);
    }
  }
  return row;
}

bool check(benchmark::State& state, const Size& s, const Operands& o, std::span<const float> y) {
  return bench::check(state,
                      bench::largest_error(y.last(static_cast<std::size_t>(s.n)), last_row(s, o)));
}

void record_clblast(Batch& batch, const Size& s, const Tensor& y, const Tensor& x,
                    const Tensor& w) {
  const auto m = static_cast<std::size_t>(s.m);
  const auto n = static_cast<std::size_t>(s.n);
  const auto k = static_cast<std::size_t>(s.k);
  batch.call(
      "clblast", {y, x, w}, [=](cl_command_queue queue, std::span<const MemoryRegion> places) {
        const auto elements = [&](std::size_t i) { return places[i].offset_bytes / sizeof(float); };
        const clblast::StatusCode status = clblast::Gemm<float>(
            clblast::Layout::kRowMajor, clblast::Transpose::kNo, clblast::Transpose::kYes, m, n, k,
            1, places[1].mem, elements(1), k, places[2].mem, elements(2), k, 0, places[0].mem,
            elements(0), n, &queue);
        if (status != clblast::StatusCode::kSuccess) {
          fail(ErrorCode::device, "clblast: Gemm gave status {}", static_cast<int>(status));
        }
      });
}

void run_clblast(benchmark::State& state, const Size& s) {
  const Operands o(s);
  const Tensor x = bench::upload({s.m, s.k}, o.x);
  const Tensor w = bench::upload({s.n, s.k}, o.w);
  const Tensor y = bench::zeros({s.m, s.n});
  Batch batch(bench::context());
  record_clblast(batch, s, y, x, w);
  batch.submit().wait();
  if (!check(state, s, o, bench::context().read<float>(y))) return;
  bench::time_best_replay(state, batch, 1, gemm_cost(s.m, w));
}

// Eigen uses the instruction set that this file is compiled for, the build's default.
void run_eigen(benchmark::State& state, const Size& s) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Operands o(s);
  const Eigen::Map<const Matrix> x(o.x.data(), s.m, s.k);
  const Eigen::Map<const Matrix> w(o.w.data(), s.n, s.k);
  Matrix y(s.m, s.n);
  y.noalias() = x * w.transpose();
  if (!check(state, s, o, std::span(y.data(), static_cast<std::size_t>(y.size())))) return;
  for (auto _ : state) {
    y.noalias() = x * w.transpose();
    benchmark::DoNotOptimize(y.data());
  }
  state.counters["gflops"] =
      benchmark::Counter(2e-9 * static_cast<double>(s.m * s.n * s.k * state.iterations()),
                         benchmark::Counter::kIsRate);
}

const bool kRegistered = [] {
  for (const Size& s : {Size{2048, 576, 576}, Size{2048, 1536, 576}, Size{2048, 576, 1536}}) {
    benchmark::RegisterBenchmark(("gemm/library/f32/" + s.text() + "/clblast").c_str(), run_clblast,
                                 s)
        ->UseManualTime()
        ->MinTime(0.3);
    benchmark::RegisterBenchmark(("gemm/library/f32/" + s.text() + "/eigen").c_str(), run_eigen, s)
        ->UseRealTime()
        ->MinTime(0.3);
  }
  return true;
}();

}  // namespace
}  // namespace clora
