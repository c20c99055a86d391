// decode_layers_gpu: all blocks of a transformer for one row over its cache, in one launch, on cards
// that run a work-group on each unit at once.
//
//   for each layer:  h = rms_norm(x);  q, k, v = h w^T + bias;  q, k rotated;  k, v to the cache
//                    x += attention(q, keys, values) w_o^T
//                    h = rms_norm(x);  x += (silu(h w_gate^T) (h w_up^T)) w_down^T
//
// and with -D ADAPTED each product has an adapter's term, of its own rank R or none:
//                    y = h w^T + scale (h a^T) u,  a [R, inputs], u [R, outputs]
//
// Shapes  x [D], changed; q [H, E]; parts [H, SPLITS, E + 2]; hidden [F]; rope_table [P, E / 2, 2];
//         keys, values [S, G, E]; s_parts a
//         number a row of a and share of its steps; weights [outputs, inputs]
// Types   weights one type of quant.clh, all else f32; position, first, last [1] i32
// Work    work-groups of GROUP items that all run at once and meet after each of five parts
//         (group_meeting.clh): projections, attention by shares of keys, o, gate and up, down. A
//         product is cut into pairs of rows of w, each pair's steps shared by a team of items; a pair
//         is what belongs together: the two elements that rope turns, or gate and up.
//         h a^T is made before a product, shared by all groups, with a meeting more.
//         The first octets of a part's weights are loaded before the meeting that it waits for, the
//         next ones before the present ones are multiplied: memory never waits for a meeting.
//         Loops with barriers run at least once: pocl makes copies of all that follows one that need
//         not.
// Local   the row that a product reads; what attention needs lies in the same place
// Cost    reads every weight once and the cache's rows first .. last, once a query head
// Numerics  f32 fma in lanes' sums, then over the lanes: the same bits every run. rms_norm's scale
//         multiplies the sums of the products, not the row.
#include "group_meeting.clh"
#include "quant_octet.clh"
#include "team_sums.clh"

#if !defined(D) || !defined(F) || !defined(H) || !defined(G) || !defined(E) || !defined(SPLITS)
#error "D, F, H, G, E and SPLITS are required"
#endif
#if !defined(HEADS_LANES) || !defined(O_LANES) || !defined(GATES_LANES) || !defined(DOWN_LANES)
#error "HEADS_LANES, O_LANES, GATES_LANES and DOWN_LANES, the items of a team, are required"
#endif
// Octets of each of two rows that an item loads ahead: 64 KiB in flight a group. As floats they take
// twice the registers.
#if WEIGHT_TYPE == WEIGHT_BF16 || WEIGHT_TYPE == WEIGHT_F16
#define AHEAD 4
#else
#define AHEAD 2
#endif

// The addresses of a layer's tensors, in the table's order; a bias may be 0.
#define INPUT_NORM 0
#define Q_WEIGHT 1
#define K_WEIGHT 2
#define V_WEIGHT 3
#define O_WEIGHT 4
#define OUTPUT_NORM 5
#define GATE_WEIGHT 6
#define UP_WEIGHT 7
#define DOWN_WEIGHT 8
#define KEYS_CACHE 9
#define VALUES_CACHE 10
#define Q_BIAS 11
#define K_BIAS 12
#define V_BIAS 13
// Of each projection (q, k, v, o, gate, up, down) the adapter's matrices, and its rank with the
// scale's bits above it; 0 where it has none.
#define A_MATRIX 14
#define U_MATRIX 21
#define RANK_SCALE 28
#define ADDRESSES 35
#define FLOATS(i) ((__global float*)layer[i])
#define WEIGHTS(i) ((__global const uchar*)layer[i])

// The products of a layer.
#define HEADS 0
#define O 1
#define GATES 2
#define DOWN 3
#define LANES(part) \
  ((part) == HEADS ? HEADS_LANES : (part) == O ? O_LANES : (part) == GATES ? GATES_LANES : DOWN_LANES)
#define PAIRS(part) \
  ((part) == HEADS ? (H + 2 * G) * (E / 2) : (part) == GATES ? F : D / 2)
#define STEPS(part) ((part) == O ? H * E : (part) == DOWN ? F : D)

// The projections of a product.
#define FIRST_OF(part) ((part) == HEADS ? 0 : (part) == O ? 3 : (part) == GATES ? 4 : 6)
#define COUNT_OF(part) ((part) == HEADS ? 3 : (part) == GATES ? 2 : 1)
#define RANK(projection) ((uint)layer[RANK_SCALE + (projection)])
#define SCALE(projection) as_float((uint)(layer[RANK_SCALE + (projection)] >> 32))

typedef struct {
  __global float* x;
  __global float* q;
  __global float* hidden;
  __global const float* angles;  // of the row's position
  int position;
  uint S;
} Row;

typedef struct {
  __global const uchar* first;
  __global const uchar* second;
} PairOfRows;

// Of q, k and v: a head, and an element of its first half.
typedef struct {
  int matrix;  // 0: q, 1: k, 2: v
  uint n;      // row of the matrix
  uint angle;
} HeadPair;

HeadPair head_pair(uint pair) {
  const uint head = pair / (E / 2);
  const int matrix = head < H ? 0 : head < H + G ? 1 : 2;
  const uint own = matrix == 0 ? head : matrix == 1 ? head - H : head - H - G;
  const HeadPair found = {matrix, own * E + pair % (E / 2), pair % (E / 2)};
  return found;
}

__attribute__((always_inline)) PairOfRows rows_of(const int part, __local const ulong* layer,
                                                  uint pair) {
  PairOfRows rows;
  if (part == HEADS) {
    const HeadPair at = head_pair(pair);
    __global const uchar* w = WEIGHTS(Q_WEIGHT + at.matrix);
    rows.first = weight_row(w, at.n, D);
    rows.second = weight_row(w, at.n + E / 2, D);
  } else if (part == GATES) {
    rows.first = weight_row(WEIGHTS(GATE_WEIGHT), pair, D);
    rows.second = weight_row(WEIGHTS(UP_WEIGHT), pair, D);
  } else {
    __global const uchar* w = WEIGHTS(part == O ? O_WEIGHT : DOWN_WEIGHT);
    rows.first = weight_row(w, 2 * pair, STEPS(part));
    rows.second = weight_row(w, 2 * pair + 1, STEPS(part));
  }
  return rows;
}

// The pair of this item's team in round `round`.
uint pair_of(const int part, uint round) {
  return (round * (GROUP / LANES(part)) + get_local_id(0) / LANES(part)) * get_num_groups(0) +
         get_group_id(0);
}

// Of the two rows of a pair, this lane's octet from step k on; not loaded behind the end, and for a
// pair that there is not.
typedef struct {
  Octet first;
  Octet second;
} Octets;

__attribute__((always_inline)) void load_octets(Octets* octets, const int part, PairOfRows rows,
                                                int there, uint k) {
  if (!there || k >= STEPS(part)) return;
  octets->first = load_octet(rows.first, k);
  octets->second = load_octet(rows.second, k);
}

// ahead [AHEAD]: the first ones of a pair.
__attribute__((always_inline)) void load_ahead(Octets* ahead, const int part,
                                               __local const ulong* layer, uint pair) {
  const int there = pair < PAIRS(part);
  const PairOfRows rows = rows_of(part, layer, there ? pair : 0);
#pragma unroll
  for (uint c = 0; c < AHEAD; ++c) {
    const uint k = (c * LANES(part) + get_local_id(0) % LANES(part)) * 8;
    load_octets(&ahead[c], part, rows, there, k);
  }
}

// What becomes of a pair's sums before lanes are added up: all that is linear in them.
__attribute__((always_inline)) float2 turned(__local const ulong* layer, const Row* row, uint pair,
                                             float2 sums) {
  const HeadPair at = head_pair(pair);
  __global const float* bias = FLOATS(Q_BIAS + at.matrix);
  if (bias != 0 && get_local_id(0) % HEADS_LANES == 0) {
    sums += (float2)(bias[at.n], bias[at.n + E / 2]);
  }
  if (at.matrix == 2) return sums;
  const float c = row->angles[2 * at.angle], s = row->angles[2 * at.angle + 1];
  return (float2)(sums.x * c - sums.y * s, sums.x * s + sums.y * c);
}

__attribute__((always_inline)) void store(const int part, __local const ulong* layer,
                                          const Row* row, uint pair, float2 sums) {
  if (part == HEADS) {
    const HeadPair at = head_pair(pair);
    __global float* out = row->q;
    if (at.matrix > 0) {
      if ((uint)row->position >= row->S) return;
      out = FLOATS(KEYS_CACHE + at.matrix - 1) + (size_t)row->position * G * E;
    }
    out[at.n] = sums.x;
    out[at.n + E / 2] = sums.y;
  } else if (part == GATES) {
    row->hidden[pair] = sums.x / (1.0f + exp(-sums.x)) * sums.y;
  } else {
    row->x[2 * pair] += sums.x;
    row->x[2 * pair + 1] += sums.y;
  }
}

#ifdef ADAPTED
#define SHARE_STEPS 512  // of a row of a, for a team of SHARE_LANES items
#define SHARE_LANES 32
#define SHARES(part) ((STEPS(part) + SHARE_STEPS - 1) / SHARE_STEPS)

// A row of the part's matrices a, one after another.
typedef struct {
  uint projection;
  uint r;
} RankRow;

uint ranks_of(const int part, __local const ulong* layer) {
  uint rows = 0;
  for (uint i = 0; i < COUNT_OF(part); ++i) rows += RANK(FIRST_OF(part) + i);
  return rows;
}

RankRow rank_row(const int part, __local const ulong* layer, uint r) {
  uint projection = FIRST_OF(part);
  while (r >= RANK(projection)) r -= RANK(projection++);
  const RankRow found = {projection, r};
  return found;
}

// s_parts [SHARES, ranks]: this group's shares of the products of `input` with the rows of a.
__attribute__((always_inline)) void make_s_parts(const int part, __global float* s_parts,
                                                 __local const ulong* layer,
                                                 __local const float* input,
                                                 __local float* scratch) {
  const uint lane = get_local_id(0) % SHARE_LANES, team = get_local_id(0) / SHARE_LANES;
  const uint ranks = ranks_of(part, layer), units = ranks * SHARES(part);
  const uint of_a_round = GROUP / SHARE_LANES * get_num_groups(0);
  uint begun = 0;
  do {
    const uint unit = begun + team * get_num_groups(0) + get_group_id(0);
    float2 sum = 0.0f;
    if (unit < units) {
      const RankRow at = rank_row(part, layer, unit % ranks);
      __global const float* row = FLOATS(A_MATRIX + at.projection) + (size_t)at.r * STEPS(part);
#pragma unroll
      for (uint c = 0; c < SHARE_STEPS; c += SHARE_LANES * 8) {
        const uint k = unit / ranks * SHARE_STEPS + c + lane * 8;
        if (k >= STEPS(part)) continue;
        __local const float4* four = (__local const float4*)(input + k);
        sum.x = add_dot8(sum.x, octet_of_floats(row + k), (float8)(four[0], four[1]));
      }
    }
    sum = team_sums2(sum, SHARE_LANES, scratch);
    if (lane == 0 && unit < units) s_parts[unit] = sum.x;
    begun += of_a_round;
  } while (begun < units);
}

// s: the sums of the shares, times each projection's scale.
__attribute__((always_inline)) void join_s_parts(const int part, __local float* s,
                                                 __global const float* s_parts,
                                                 __local const ulong* layer) {
  const uint ranks = ranks_of(part, layer);
  for (uint j = get_local_id(0); j < ranks; j += GROUP) {
    float sum = 0.0f;
#pragma unroll
    for (uint share = 0; share < SHARES(part); ++share) sum += s_parts[share * ranks + j];
    s[j] = sum * SCALE(rank_row(part, layer, j).projection);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // s is whole
}

// This lane's ranks of s u for a pair.
__attribute__((always_inline)) float2 low_rank(const int part, __local const ulong* layer,
                                               uint pair, __local const float* s) {
  const uint lane = get_local_id(0) % LANES(part);
  float2 sums = 0.0f;
  if (part == GATES) {
    for (uint r = lane; r < RANK(4); r += LANES(part)) {
      sums.x = fma(s[r], FLOATS(U_MATRIX + 4)[(size_t)r * F + pair], sums.x);
    }
    for (uint r = lane; r < RANK(5); r += LANES(part)) {
      sums.y = fma(s[RANK(4) + r], FLOATS(U_MATRIX + 5)[(size_t)r * F + pair], sums.y);
    }
    return sums;
  }
  const HeadPair at = head_pair(pair);
  const uint projection = part == HEADS ? at.matrix : FIRST_OF(part);
  const uint outputs = part != HEADS ? D : at.matrix == 0 ? H * E : G * E;
  const uint first = part == HEADS ? at.n : 2 * pair, second = part == HEADS ? first + E / 2 : first + 1;
  for (uint i = FIRST_OF(part); i < projection; ++i) s += RANK(i);
  __global const float* u = FLOATS(U_MATRIX + projection);
  for (uint r = lane; r < RANK(projection); r += LANES(part)) {
    sums.x = fma(s[r], u[(size_t)r * outputs + first], sums.x);
    sums.y = fma(s[r], u[(size_t)r * outputs + second], sums.y);
  }
  return sums;
}
#endif

// One product of `input` [STEPS], whose first octets are loaded already.
__attribute__((always_inline)) void multiply(const int part, Octets* ahead,
                                             __local const ulong* layer, const Row* row,
                                             __local const float* input, float factor,
                                             __local const float* s, __local float* scratch) {
  const uint lane = get_local_id(0) % LANES(part), at_once = AHEAD * LANES(part) * 8;
  const uint of_a_round = GROUP / LANES(part) * get_num_groups(0);  // pairs
  uint round = 0;
  do {
    const uint pair = pair_of(part, round);
    const int there = pair < PAIRS(part);
    int there_next = 0;
    float2 sums = 0.0f;
#ifdef ADAPTED
    if (there) sums = low_rank(part, layer, pair, s);
#endif
    // What is taken from `ahead` makes room for what comes AHEAD turns later, perhaps of the next
    // pair.
    PairOfRows rows = rows_of(part, layer, there ? pair : 0);
    for (uint k0 = 0; k0 < STEPS(part); k0 += at_once) {
      const int more = k0 + at_once < STEPS(part);
      if (!more) {
        const uint next = pair_of(part, round + 1);
        there_next = next < PAIRS(part);
        rows = rows_of(part, layer, there_next ? next : 0);
      }
#pragma unroll
      for (uint c = 0; c < AHEAD; ++c) {
        const uint step = (c * LANES(part) + lane) * 8, k = k0 + step;
        const Octets now = ahead[c];
        load_octets(&ahead[c], part, rows, more ? there : there_next,
                    more ? k + at_once : step);
        if (!there || k >= STEPS(part)) continue;
        __local const float4* four = (__local const float4*)(input + k);
        const float8 inputs = (float8)(four[0], four[1]);
        sums.x = add_dot8(sums.x, floats_of_octet(now.first), inputs);
        sums.y = add_dot8(sums.y, floats_of_octet(now.second), inputs);
      }
    }
    sums *= factor;
    if (part == HEADS && there) sums = turned(layer, row, pair, sums);
    sums = team_sums2(sums, LANES(part), scratch);
    if (lane == 0 && there) store(part, layer, row, pair, sums);
    ++round;
  } while (round * of_a_round + get_group_id(0) < PAIRS(part));
}

// input = x w; gives rms_norm's scale.
__attribute__((always_inline)) float load_normed(__local float* input, __global const float* x,
                                                 __global const float* w, float epsilon,
                                                 __local float* scratch) {
  float squares = 0.0f;
  for (uint i = get_local_id(0); i < D / 4; i += GROUP) {
    const float4 four = ((__global const float4*)x)[i];
    squares += dot(four, four);
    ((__local float4*)input)[i] = four * ((__global const float4*)w)[i];
  }
  return rsqrt(group_total(squares, scratch) / D + epsilon);  // after barriers: input is whole
}

// parts of this group's heads and shares of keys.
__attribute__((always_inline)) void attend(__global float* parts, __local const ulong* layer,
                                           __global const float* q, int first, int last,
                                           float scale, __local float* space,
                                           __local float* scratch) {
  __local float* scores = space;         // [GROUP]
  __local float* query = space + GROUP;  // [E]
  __local float4* slices = (__local float4*)(query + E);
  const uint item = get_local_id(0), columns = E / 4;
  const uint slice = item / columns, column = item % columns;
  const int share = (last - first) / SPLITS + 1;
  uint unit = get_group_id(0);
  do {
    const int there = unit < H * SPLITS;
    const uint h = there ? unit / SPLITS : 0;
    const int begin = first + (int)(unit % SPLITS) * share;
    const int end = there ? min(last + 1, begin + share) : begin;
    __global const float* k = FLOATS(KEYS_CACHE) + h / (H / G) * E;
    __global const float* v = FLOATS(VALUES_CACHE) + h / (H / G) * E;
    for (uint e = item; e < E; e += GROUP) query[e] = q[h * E + e] * scale;
    float4 sum = 0.0f;
    float top = -1e30f, total = 0.0f;  // finite: the difference of two infinities would be NaN
    barrier(CLK_LOCAL_MEM_FENCE);      // the query is whole
    int block = begin;
    do {
      const uint keys = (uint)clamp(end - block, 0, GROUP);
      uint from = 0;
      do {
        const uint key = from + item / 8;
        float score = 0.0f;
        if (key < keys) {
          __global const float* row = k + (size_t)(block + key) * G * E;
          for (uint e = item % 8; e < columns; e += 8) {
            score += dot(((__local const float4*)query)[e], ((__global const float4*)row)[e]);
          }
        }
        score = eight_sum(score, scratch);
        if (item % 8 == 0) scores[key] = key < keys ? score : -1e30f;
        from += GROUP / 8;
      } while (from < keys);
      barrier(CLK_LOCAL_MEM_FENCE);  // the scores are there
      const float own = item < keys ? scores[item] : -1e30f;
      const float new_top = fmax(top, group_top(own, scratch));
      const float p = item < keys ? exp(own - new_top) : 0.0f;
      const float factor = exp(top - new_top);
      total = total * factor + group_total(p, scratch);
      top = new_top;
      scores[item] = p;
      barrier(CLK_LOCAL_MEM_FENCE);  // the weights are there
      sum *= factor;
      if (slice < GROUP / columns) {
        for (uint key = slice; key < keys; key += GROUP / columns) {
          sum += scores[key] * ((__global const float4*)(v + (size_t)(block + key) * G * E))[column];
        }
      }
      barrier(CLK_LOCAL_MEM_FENCE);  // the weights have been read
      block += GROUP;
    } while (block < end);
    if (slice < GROUP / columns) slices[item] = sum;
    barrier(CLK_LOCAL_MEM_FENCE);  // all slices are there
    __global float* part = parts + (size_t)unit * (E + 2);
    for (uint e = item; e < E && there; e += GROUP) {
      float joined = 0.0f;
      for (uint i = 0; i < GROUP / columns; ++i) joined += ((__local const float*)slices)[i * E + e];
      part[e] = joined;
    }
    if (item == 0 && there) {
      part[E] = top;
      part[E + 1] = total;
    }
    barrier(CLK_LOCAL_MEM_FENCE);  // the slices have been read
    unit += get_num_groups(0);
  } while (unit < H * SPLITS);
}

// input [H, E] = attention's parts joined. factors: 2 H SPLITS floats of local memory.
__attribute__((always_inline)) void load_joined(__local float* input, __local float* factors,
                                                __global const float* parts) {
  const uint item = get_local_id(0);
  __local float* totals = factors + H * SPLITS;
  for (uint i = item; i < H * SPLITS; i += GROUP) {
    factors[i] = parts[(size_t)i * (E + 2) + E];
    totals[i] = parts[(size_t)i * (E + 2) + E + 1];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the splits' tops and totals are there
  for (uint h = item; h < H; h += GROUP) {
    __local float* own = factors + h * SPLITS;
    float top = own[0], total = 0.0f;
    for (uint s = 1; s < SPLITS; ++s) top = fmax(top, own[s]);
    for (uint s = 0; s < SPLITS; ++s) {
      own[s] = exp(own[s] - top);
      total = fma(own[s], totals[h * SPLITS + s], total);
    }
    for (uint s = 0; s < SPLITS; ++s) own[s] /= total;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // the splits' weights are there
  for (uint i = item; i < H * E; i += GROUP) {
    const uint h = i / E;
    __global const float* part = parts + (size_t)h * SPLITS * (E + 2) + i % E;
    float sum = 0.0f;
#pragma unroll
    for (uint s = 0; s < SPLITS; ++s) {
      sum = fma(factors[h * SPLITS + s], part[s * (E + 2)], sum);
    }
    input[i] = sum;
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // input is whole
}

__attribute__((always_inline)) void load_row(__local float* input, __global const float* from,
                                             uint count) {
  for (uint i = get_local_id(0); i < count / 4; i += GROUP) {
    ((__local float4*)input)[i] = ((__global const float4*)from)[i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // input is whole
}

// The shares of h a^T are made and joined, with a meeting between.
#ifdef ADAPTED
#define MEETINGS 9
#define MAKE_S(part)                                  \
  make_s_parts(part, s_parts, layer, input, scratch); \
  arrive(meeting);                                    \
  wait_for(meeting, turn += groups);                  \
  join_s_parts(part, s, s_parts, layer);
#else
#define MEETINGS 5
#define MAKE_S(part)
#endif

__attribute__((reqd_work_group_size(GROUP, 1, 1))) __kernel void decode_layers(
    __global float* x, __global float* q, __global float* parts, __global float* hidden,
    __global float* s_parts, __global const ulong* addresses, __global const float* rope_table,
    __global const int* position, __global const int* first, __global const int* last,
    __global volatile uint* meeting, uint layers, uint S, float epsilon, float scale) {
  __local float input[LOCAL_FLOATS] __attribute__((aligned(16)));
  __local float scratch[TEAM_SCRATCH(2)];
  __local float s[MOST_RANKS], factors[2 * H * SPLITS];
  __local ulong table[MOST_LAYERS * ADDRESSES];
  for (uint i = get_local_id(0); i < layers * ADDRESSES; i += GROUP) table[i] = addresses[i];
  barrier(CLK_LOCAL_MEM_FENCE);  // the table is whole
  const uint groups = get_num_groups(0);
  const Row row = {x, q, hidden, rope_table + (long)position[0] * E, position[0], S};
  uint turn = arrivals_before(meeting, groups * MEETINGS * layers);
  Octets ahead[AHEAD];
  load_ahead(ahead, HEADS, table, pair_of(HEADS, 0));
  uint l = 0;
  do {
    __local const ulong* layer = table + l * ADDRESSES;
    float factor = load_normed(input, x, FLOATS(INPUT_NORM), epsilon, scratch);
    MAKE_S(HEADS)
    multiply(HEADS, ahead, layer, &row, input, factor, s, scratch);
    arrive(meeting);
    wait_for(meeting, turn += groups);  // q and the cache's new row are whole

    attend(parts, layer, q, first[0], last[0], scale, input, scratch);
    arrive(meeting);
    load_ahead(ahead, O, layer, pair_of(O, 0));
    wait_for(meeting, turn += groups);  // all parts of attention are there

    load_joined(input, factors, parts);
    MAKE_S(O)
    multiply(O, ahead, layer, &row, input, 1.0f, s, scratch);
    arrive(meeting);
    load_ahead(ahead, GATES, layer, pair_of(GATES, 0));
    wait_for(meeting, turn += groups);  // x is whole

    factor = load_normed(input, x, FLOATS(OUTPUT_NORM), epsilon, scratch);
    MAKE_S(GATES)
    multiply(GATES, ahead, layer, &row, input, factor, s, scratch);
    arrive(meeting);
    load_ahead(ahead, DOWN, layer, pair_of(DOWN, 0));
    wait_for(meeting, turn += groups);  // hidden is whole

    load_row(input, hidden, F);
    MAKE_S(DOWN)
    multiply(DOWN, ahead, layer, &row, input, 1.0f, s, scratch);
    arrive(meeting);
    if (l + 1 < layers) load_ahead(ahead, HEADS, layer + ADDRESSES, pair_of(HEADS, 0));
    wait_for(meeting, turn += groups);  // x is whole
  } while (++l < layers);
  if (get_group_id(0) == 0) end_launch(meeting);
}

// One layer's row of the table.
__kernel void decode_addresses(__global ulong* addresses, uint l, __global const float* input_norm,
                               __global const uchar* q, __global const uchar* k,
                               __global const uchar* v, __global const uchar* o,
                               __global const float* output_norm, __global const uchar* gate,
                               __global const uchar* up, __global const uchar* down,
                               __global float* keys, __global float* values,
                               __global const float* q_bias, __global const float* k_bias,
                               __global const float* v_bias, uint biases) {
  __global ulong* layer = addresses + l * ADDRESSES;
  layer[INPUT_NORM] = (ulong)input_norm;
  layer[Q_WEIGHT] = (ulong)q;
  layer[K_WEIGHT] = (ulong)k;
  layer[V_WEIGHT] = (ulong)v;
  layer[O_WEIGHT] = (ulong)o;
  layer[OUTPUT_NORM] = (ulong)output_norm;
  layer[GATE_WEIGHT] = (ulong)gate;
  layer[UP_WEIGHT] = (ulong)up;
  layer[DOWN_WEIGHT] = (ulong)down;
  layer[KEYS_CACHE] = (ulong)keys;
  layer[VALUES_CACHE] = (ulong)values;
  layer[Q_BIAS] = biases & 1 ? (ulong)q_bias : 0;
  layer[K_BIAS] = biases & 2 ? (ulong)k_bias : 0;
  layer[V_BIAS] = biases & 4 ? (ulong)v_bias : 0;
  for (uint i = A_MATRIX; i < ADDRESSES; ++i) layer[i] = 0;
}

// What an adapter adds to a row of the table, after decode_addresses.
__kernel void decode_adapter(__global ulong* addresses, uint l, uint projection,
                             __global const float* a, __global const float* u, uint rank,
                             float scale) {
  __global ulong* layer = addresses + l * ADDRESSES;
  layer[A_MATRIX + projection] = (ulong)a;
  layer[U_MATRIX + projection] = (ulong)u;
  layer[RANK_SCALE + projection] = rank | (ulong)as_uint(scale) << 32;
}
