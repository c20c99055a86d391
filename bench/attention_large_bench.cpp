// attention/fused/bf16/DOCUMENTSxLENGTHxHxE/warm/bf16 and attention_backward: causal attention of
// bf16 queries, keys and values with the heads of Qwen2.5 (seven query heads per key/value head);
// attention_packed/fused/bf16/DOCUMENTSxROWSxHxE: documents of different lengths with ROWS rows in
// total. Work that a model does once for all its layers is done once for the same number of ops
// here. Only on GPUs (wants_large()).
#include <array>
#include <cmath>
#include <numeric>

#include "bench/support/bulk.hpp"
#include "clora/ops/attention/attention.hpp"
#include "tests/reference/attention_reference.hpp"

namespace clora::bench {
namespace {

constexpr std::int64_t kQueryHeadsOfAKeyHead = 7;
// bench/peers/peer_lines.py uses the same lengths.
constexpr std::array kPackedLengths{2048, 700, 1300, 33, 911, 128, 1024, 600, 900, 448, 100};
using Ints = std::vector<std::int32_t>;

struct Heads {
  std::int64_t H, E;
  std::int64_t G() const { return H / kQueryHeadsOfAKeyHead; }
};

struct Problem {
  Heads heads;
  Ints first, last;
  Bulk q, k, v, dy;

  Problem(const Heads& h, const Ints& lengths)
      : heads(h),
        last(static_cast<std::size_t>(std::accumulate(lengths.begin(), lengths.end(), 0))),
        q({std::ssize(last), h.H, h.E}, DType::bf16, 1),
        k({std::ssize(last), h.G(), h.E}, DType::bf16, 2),
        v(k.shape(), DType::bf16, 3),
        dy(q.shape(), DType::bf16, 4) {
    for (const std::int32_t length : lengths) {
      const auto begin = static_cast<std::int32_t>(first.size());
      first.insert(first.end(), static_cast<std::size_t>(length), begin);
    }
    std::iota(last.begin(), last.end(), 0);
  }
  float scale() const { return 1 / std::sqrt(static_cast<float>(heads.E)); }
  double pairs() const {
    double sum = 0;
    for (std::size_t t = 0; t < last.size(); ++t) sum += last[t] - first[t] + 1;
    return sum;
  }
  double bytes() const {  // q, y; k, v
    return 2 * 2 * static_cast<double>(q.shape().elements() + k.shape().elements());
  }
  AttentionInputs inputs(BufferSet& set) const {
    const Shape rows{q.shape()[0]};
    return {q.upload(set),          k.upload(set),         v.upload(set),
            set.input(rows, first), set.input(rows, last), scale()};
  }
  std::size_t count() const { return last.size() > 8192 ? 4 : 24; }
};

// A reference for the last row, a query over the keys of the last document. It is the only query
// that attends to the last key.
class LastRow {
 public:
  explicit LastRow(const Problem& p)
      : p_(p),
        begin_(static_cast<std::size_t>(p.first.back())),
        n_{1, p.last.size() - begin_, size(p.heads.H), size(p.heads.G()), size(p.heads.E)},
        q_(p.q.part(p.last.size() * n_.H * n_.E - n_.H * n_.E, n_.H * n_.E)),
        k_(p.k.part(begin_ * n_.G * n_.E, n_.keys())),
        v_(p.v.part(begin_ * n_.G * n_.E, n_.keys())) {}

  std::vector<double> y() const {
    const std::vector<std::int32_t> first{0}, last{static_cast<std::int32_t>(n_.Tk) - 1};
    return test::attention_reference(n_, q_, k_, v_, first, last, p_.scale()).y;
  }
  // dq of the last row, dk and dv of the last key.
  test::QkvGradients gradients() const {
    test::QkvGradients all{std::vector<double>(n_.H * n_.E), std::vector<double>(n_.G * n_.E),
                           std::vector<double>(n_.G * n_.E)};
    for (std::size_t h = 0; h < n_.H; ++h) add_head(all, h);
    return all;
  }

 private:
  static std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }

  void add_head(test::QkvGradients& all, std::size_t h) const {
    const std::vector<double> dy = p_.dy.part((p_.last.size() - 1) * n_.H * n_.E + h * n_.E, n_.E);
    const std::size_t g = h / (n_.H / n_.G);
    double unused = 0;
    const auto p = test::attention_weights(n_, q_, k_, 0, h, 0, n_.Tk - 1, p_.scale(), 0, unused);
    std::vector<double> dp(n_.Tk);
    double mean = 0;
    for (std::size_t i = 0; i < n_.Tk; ++i) {
      for (std::size_t e = 0; e < n_.E; ++e) dp[i] += dy[e] * v_[(i * n_.G + g) * n_.E + e];
      mean += p[i] * dp[i];
    }
    for (std::size_t i = 0; i < n_.Tk; ++i) {
      const double ds = p_.scale() * p[i] * (dp[i] - mean);
      for (std::size_t e = 0; e < n_.E; ++e) {
        all.dq[h * n_.E + e] += ds * k_[(i * n_.G + g) * n_.E + e];
        if (i + 1 < n_.Tk) continue;
        all.dk[g * n_.E + e] += ds * q_[h * n_.E + e];
        all.dv[g * n_.E + e] += p[i] * dy[e];
      }
    }
  }

  const Problem& p_;
  std::size_t begin_;
  test::AttentionSizes n_;
  std::vector<double> q_, k_, v_;
};

void forward(OpBench& bench, const Heads& heads, const Ints& lengths) {
  const Problem p(heads, lengths);
  bench.cost = {attention_cost(p.q.shape(), p.pairs()).flops, p.bytes()};
  bench.repeats = p.count();
  bench.record([&](BufferSet& set) {
    AttentionInputs in = p.inputs(set);
    const Tensor y = bulk_output(set, p.q.shape(), DType::bf16);
    const Tensor logs = set.output({p.q.shape()[0], heads.H});
    in.order = record_attention_order(set.batch(), in.first, in.last, heads.H, heads.E);
    for (std::size_t i = 0; i < bench.repeats; ++i) record_attention(set.batch(), y, logs, in);
    expect_last(set, y, [&] { return LastRow(p).y(); });
  });
}

// The forward pass runs once, before timing.
void backward(OpBench& bench, const Heads& heads, const Ints& lengths) {
  const Problem p(heads, lengths);
  bench.cost = {2.5 * attention_cost(p.q.shape(), p.pairs()).flops, 2 * p.bytes()};
  bench.repeats = p.count();
  bench.record([&](BufferSet& set) {
    AttentionInputs in = p.inputs(set);
    const Tensor y = bulk_output(set, p.q.shape(), DType::bf16);
    const Tensor logs = set.output({p.q.shape()[0], heads.H}), dy = p.dy.upload(set);
    Batch before(bench.context());
    record_attention(before, y, logs, in);
    before.submit().wait();
    const AttentionGradients out{bulk_output(set, p.q.shape(), DType::bf16),
                                 bulk_output(set, p.k.shape(), DType::bf16),
                                 bulk_output(set, p.k.shape(), DType::bf16)};
    in.order = record_attention_order(set.batch(), in.first, in.last, heads.H, heads.E);
    for (std::size_t i = 0; i < bench.repeats; ++i) {
      record_attention_backward(set.batch(), out, dy, y, logs, in);
    }
    expect_last(set, out.dq, [&] { return LastRow(p).gradients().dq; });
    expect_last(set, out.dk, [&] { return LastRow(p).gradients().dk; });
    expect_last(set, out.dv, [&] { return LastRow(p).gradients().dv; });
  });
}

// shape: DOCUMENTSxLENGTHxHxE, with the sum of the lengths for documents of different lengths.
void add_shape(const std::string& op, const Shape& shape, const Ints& lengths) {
  const Heads heads{shape[2], shape[3]};
  const Name name{.op = op, .type = "bf16", .shape = shape, .words = {"warm", "bf16"}};
  add_op(name, Arithmetic::bf16, [=](OpBench& bench) { forward(bench, heads, lengths); });
  Name back = name;
  back.op += "_backward";
  add_op(back, Arithmetic::bf16, [=](OpBench& bench) { backward(bench, heads, lengths); });
}

const bool kAdded = add_family([] {
  if (!wants_large() || !has(Arithmetic::bf16)) return;
  for (const Shape& shape :
       {Shape{8, 1024, 14, 64}, Shape{8, 1024, 14, 128}, Shape{4, 1024, 28, 128},
        Shape{1, 16384, 28, 64}, Shape{1, 16384, 28, 128}}) {
    add_shape("attention", shape,
              Ints(static_cast<std::size_t>(shape[0]), static_cast<std::int32_t>(shape[1])));
  }
  const Ints packed(kPackedLengths.begin(), kPackedLengths.end());
  const std::int64_t rows = std::accumulate(packed.begin(), packed.end(), 0);
  for (const std::int64_t width : {64, 128}) {
    add_shape("attention_packed", {std::ssize(packed), rows, 14, width}, packed);
  }
});

}  // namespace
}  // namespace clora::bench
