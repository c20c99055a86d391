#include "clora/ops/optimizers/muon.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "ops/launch_grids.hpp"
#include "ops/optimizers/flat_update.hpp"
#include "runtime/fail.hpp"
#include "runtime/integer_sizes.hpp"

namespace clora {
namespace {

constexpr std::string_view kOp = "muon";
constexpr const char* kFile = "muon.cl";
constexpr std::size_t kWords = 8;
constexpr int kSteps = 5;

std::int64_t short_side(const MuonMatrix& matrix) { return std::min(matrix.rows, matrix.columns); }
std::int64_t long_side(const MuonMatrix& matrix) { return std::max(matrix.rows, matrix.columns); }

// "match_rms_adamw" of torch.optim.Muon.
float scale_of(const MuonMatrix& matrix) {
  return static_cast<float>(0.2 * std::sqrt(static_cast<double>(long_side(matrix))));
}

void require_matrices(std::span<const MuonMatrix> matrices, std::int64_t n) {
  require(n <= std::numeric_limits<std::uint32_t>::max(),
          "muon: at most 2^32 - 1 parameters are supported, got {}", n);
  require(!matrices.empty(), "muon: there is no matrix to update");
  for (const MuonMatrix& matrix : matrices) {
    require(matrix.rows >= 1 && matrix.columns >= 1 && matrix.offset >= 0 && matrix.rows <= n &&
                matrix.columns <= n && matrix.offset + matrix.rows * matrix.columns <= n,
            "muon: a matrix must be within the {} parameters, got [{}, {}] at {}", n, matrix.rows,
            matrix.columns, matrix.offset);
  }
}

// What the kernels read of the matrices, and the sizes of their grids.
struct Matrices {
  std::vector<std::uint32_t> words;
  std::int64_t factor_elements = 0;  // of all [S, S]
  std::int64_t most_short = 0, most_long = 0;
};

Matrices matrices_of(std::span<const MuonMatrix> list) {
  Matrices all;
  for (const MuonMatrix& matrix : list) {
    const std::int64_t side = short_side(matrix);
    all.words.insert(
        all.words.end(),
        {u32(matrix.offset), u32(side), u32(long_side(matrix)),
         matrix.rows > matrix.columns ? 1U : 0U, u32(all.factor_elements),
         std::bit_cast<std::uint32_t>(scale_of(matrix)), std::bit_cast<std::uint32_t>(matrix.rate),
         std::bit_cast<std::uint32_t>(matrix.decay)});
    all.factor_elements += side * side;
    all.most_short = std::max(all.most_short, side);
    all.most_long = std::max(all.most_long, long_side(matrix));
  }
  require(all.factor_elements <= std::numeric_limits<std::uint32_t>::max(),
          "muon: the squares of the matrices' short sides have {} elements together, at most "
          "2^32 - 1 are supported; use a lower rank",
          all.factor_elements);
  return all;
}

// Flops of the launches after the momentum.
struct Flops {
  double product = 0, iteration = 0;  // muon_gram or muon_update, muon_iterate
  double elements = 0;                // of all matrices
};

Flops flops_of(std::span<const MuonMatrix> matrices) {
  Flops flops;
  for (const MuonMatrix& matrix : matrices) {
    const auto s = static_cast<double>(short_side(matrix));
    const auto l = static_cast<double>(long_side(matrix));
    flops.product += 2 * s * s * l;
    flops.iteration += 2 * (4 * kSteps - 2) * s * s * s;
    flops.elements += s * l;
  }
  return flops;
}

// The launches that turn u into the update of the matrices.
class OrthogonalUpdate {
 public:
  OrthogonalUpdate(Batch& batch, const Tensor& u, std::span<const MuonMatrix> list,
                   const FlatLaunch& flat)
      : batch_(batch),
        u_(u),
        count_(list.size()),
        flops_(flops_of(list)),
        group_(flat.grid.local[0]),
        tile_(group_ >= 256 ? 16 : 8),
        defines_(flat.defines) {
    const Matrices matrices = matrices_of(list);
    most_short_ = matrices.most_short;
    most_long_ = matrices.most_long;
    const Shape factors{matrices.factor_elements};
    words_ = batch.context().upload<std::uint32_t>({std::ssize(matrices.words)}, DType::u32,
                                                   matrices.words, MemoryTag::adapters);
    grams_ = batch.temporary(factors, DType::f32, "muon grams");
    factors_ = batch.temporary(factors, DType::f32, "muon factors");
    scratch_ = batch.temporary({2 * matrices.factor_elements}, DType::f32, "muon scratch");
  }

  void record(const Tensor& parameters, const Tensor& settings) {
    const auto bytes = [](double elements) { return 4 * elements; };
    const auto tile = static_cast<std::size_t>(tile_);
    const auto side = divide_up(static_cast<std::size_t>(most_short_), tile) * tile;
    launch("muon_gram", {{side, side, count_}, {tile, tile, 1}},
           {flops_.product, bytes(flops_.elements)}, {grams_, u_, words_});
    launch("muon_iterate", {{group_ * count_, 1, 1}, {group_, 1, 1}}, {flops_.iteration, 0},
           {factors_, grams_, scratch_, words_});
    const auto chunks = divide_up(static_cast<std::size_t>(most_long_), group_);
    launch("muon_update", {{group_ * chunks, count_, 1}, {group_, 1, 1}},
           {flops_.product, 3 * bytes(flops_.elements)},
           {parameters, u_, factors_, settings, words_});
  }

 private:
  void launch(std::string_view kernel, Grid grid, Cost cost, std::vector<Argument> arguments) {
    std::string label = "muon/" + std::string(kernel.substr(kOp.size() + 1));
    batch_.record({batch_.context().kernel(kFile, kernel, defines_), grid, cost, std::move(label)},
                  std::move(arguments));
  }

  Batch& batch_;
  Tensor u_, words_, grams_, factors_, scratch_;
  std::size_t count_;
  Flops flops_;
  std::size_t group_;
  std::int64_t tile_;
  Defines defines_;
  std::int64_t most_short_ = 0, most_long_ = 0;
};

}  // namespace

Cost muon_cost(std::int64_t parameters, std::span<const MuonMatrix> matrices) {
  const auto n = static_cast<double>(parameters);
  const Flops flops = flops_of(matrices);
  return {8 * n + 2 * flops.product + flops.iteration, 20 * n + 16 * flops.elements};
}

Tensor record_muon(Batch& batch, const MomentumTensors& tensors,
                   std::span<const MuonMatrix> matrices, float momentum, const Tensor& grad_norm) {
  const std::int64_t n = require_update(kOp, tensors.parameters, tensors.gradients,
                                        tensors.settings, tensors.rates, grad_norm);
  require_tensor(kOp, "momentum", tensors.momentum, tensors.parameters.shape());
  require(tensors.rates.empty(), "muon: rates are those of the matrices, `rates` must be empty");
  require_matrices(matrices, n);

  FlatLaunch flat = flat_update_launch(batch.context(), kFile, false, n);
  flat.defines.set("TILE", flat.grid.local[0] >= 256 ? 16 : 8);
  const Tensor squares = record_square_sums(batch, flat, tensors.gradients, kOp);
  const Tensor u = batch.temporary({n}, DType::f32, "muon u");
  const auto count = static_cast<double>(n);
  batch.launch({batch.context().kernel(kFile, "muon_momentum", flat.defines),
                flat.grid,
                {6 * count, 16 * count},
                "muon/momentum"},
               tensors.momentum, u, grad_norm, tensors.gradients, tensors.settings, squares,
               i32(squares.elements()), momentum, n);
  OrthogonalUpdate(batch, u, matrices, flat).record(tensors.parameters, tensors.settings);
  return squares;
}

}  // namespace clora
