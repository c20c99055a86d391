// attention_backward_wgmma: attention, backward, on Hopper's matrix units, over packed rows (row t sees
// first[t] .. t; first does not decrease).
//
//   p[t, h, k] = exp(scale * q[t, h] . k[k, g] - log_sum_exp[t, h]),  g = h / (H / G)
//   ds[t, h, k] = p * (dy[t, h] . v[k, g] - dot[t, h]),  dot = dy . y
//   dv[k, h] = sum_t p dy[t, h]    dk[k, h] = scale * sum_t ds q[t, h]    of one query head
//   dq[t, h] = scale * sum_k ds k[k, g]
// Shapes  q, dy [T, H, E], k and v [T, G, E] by their maps (cl/tensor_map.cl) in the order q, k, v, dy,
//         in boxes of STEP rows (q, dy) or 128 (k, v); dq, dk, dv [T, H, E]; E = WIDTH of 64 or 128.
//         P = T rounded up to 128. stats [H, P / STEP, 3, STEP], steps [P / 128] i32 and plan, which
//         begins with counters: see cl/attention_backward_begin_wgmma.cl; sums [H * P * E] f32. order:
//         cl/attention_order.cl.
// Types   q, k, v and dy bf16, read through their maps alone; dq, dk, dv f32 or bf16 (RESULT_BF16)
// Work    a persistent grid of work-groups of three warp groups. A task is 128 keys of one query head,
//         a step STEP of its queries. One thread copies, two warp groups own 64 keys each. Scores and
//         slopes are made transposed, so that p^T and ds^T are left operands where they lie, in
//         registers; ds^T goes through local memory too, for dq. Two more threads carry dq's parts
//         to `sums`, where the copy engine adds them up, each every other step's: one waits for its
//         place while the other's part is on its way.
// Order   tasks are taken from a counter, in the order given. A part of dq is added when those of all
//         tasks before it are: counters[h, step] says of how many. A wait is thus for a task that
//         runs, and the sum the same every run. The first part is stored, the last one added in
//         registers.
// Local   about 211 KB
// Cost    10 E flops a (query, key) pair and head
// Numerics p from the forward's log_sum_exp; p and ds are rounded to bf16; sums f32
#include "attention_backward_wgmma.clh"
#include "hopper.clh"
#include "hopper_lanes.clh"
#include "hopper_products.clh"
#include "hopper_rows.clh"

#define KEY_BOX (KEYS * 128)
#define KEY_TILE (BOXES * KEY_BOX)
#define STEP_BOX (STEP * 128)
#define STEP_TILE 16384
#define DS_TILE (KEYS * STEP * 2)
#define DQ_BYTES 32768
#define CARRIERS 2
#define RING 3  // of q and its rows' stats; of dy two
#define MAP_BYTES 128
#define LOG2_E 1.44269504f
// Arrays in registers are handed on, which a call would put in memory.
#define INLINED __attribute__((always_inline))

struct Task {
  int keys, steps, h;  // keys: their block; below zero: no more tasks
};
#define TASK_BYTES 12

// Of long documents with wide heads some heads after the others: what their groups add to dq, and
// read, is in the cache yet. Else all heads side by side, as the order of short documents
// (cl/attention_order.cl) wants it, and narrow heads are faster.
#define HEADS_BESIDE (WIDTH == 128 ? 4 : H)
// The id-th task's head, and the place of its keys in order.
int2 place_of(int id, int blocks, int H, int upwards) {
  const int beside = upwards ? H : HEADS_BESIDE, first = id / (blocks * beside) * beside;
  const int heads = min(beside, H - first), rest = id - first * blocks;
  return (int2)(first + rest % heads, rest / heads);
}

int taken(__global int* counter) {
  int value;
  asm volatile("atom.relaxed.gpu.global.add.s32 %0, [%1], 1;" : "=r"(value) : "l"(counter) : "memory");
  return value;
}
void wait_for(__global const int* counter, int value) {
  int seen;
  do {
    asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
  } while (seen != value);
  asm volatile("fence.proxy.async;" ::: "memory");
}
void release(__global int* counter, int value) {
  asm volatile("fence.proxy.async;" ::: "memory");
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(counter), "r"(value) : "memory");
}

// Read where they are needed: registers are short.
int shared_int(uint at) {
  int value;
  asm volatile("ld.shared.s32 %0, [%1];" : "=r"(value) : "r"(at) : "memory");
  return value;
}
float2 shared_two(uint at) {
  float2 two;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(two.x), "=f"(two.y) : "r"(at) : "memory");
  return two;
}
// A warp's arrival: what its lanes have stored to local memory is seen by the copy engine and wgmma.
void warp_stored(uint barrier_at, uint lane) {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  warp_together();
  if (lane == 0) barrier_arrive(barrier_at);
}

void copy_boxes(uint to, uint box_bytes, __global const uchar* map, int head, int row, uint ready) {
  for (int b = 0; b < BOXES; ++b) {
    copy_box(to + b * box_bytes, map, (head * BOXES + b) * 64, row, ready);
  }
}

// Where everything lies in local memory. The barriers: of k, v and dq's buffer one each way, of the
// rings one a stage; that dq's buffer is full, one for each of the threads that carry it.
struct Places {
  uint k, v, q, dy, ds, dq, stats, info, tasks;
  uint k_full, k_empty, v_full, v_empty, dq_empty, dq_loaded;
  uint q_full, q_empty, dy_full, dy_empty, ds_full, dq_full;
};
#define STATS_BYTES (3 * STEP * 4)

struct Places places_from(uint tiles, uint barriers) {
  struct Places at;
  at.k = tiles;
  at.v = at.k + KEY_TILE;
  at.q = at.v + KEY_TILE;
  at.dy = at.q + RING * STEP_TILE;
  at.ds = at.dy + 2 * STEP_TILE;
  at.dq = at.ds + 2 * DS_TILE;
  at.k_full = barriers;
  at.k_empty = at.k_full + 8;
  at.v_full = at.k_full + 16;
  at.v_empty = at.k_full + 24;
  at.dq_empty = at.k_full + 32;
  at.dq_loaded = at.k_full + 40;
  at.dy_full = at.k_full + 48;
  at.dy_empty = at.dy_full + 16;
  at.ds_full = at.dy_empty + 16;
  at.dq_full = at.ds_full + 16;
  at.q_full = at.dq_full + 16;
  at.q_empty = at.q_full + 8 * RING;
  return at;
}
void begin_barriers(struct Places at) {
  barrier_begin(at.k_full, 1);
  barrier_begin(at.k_empty, 2 + CARRIERS);
  barrier_begin(at.v_full, 1);
  barrier_begin(at.v_empty, 2);
  barrier_begin(at.dq_empty, 1);
  barrier_begin(at.dq_loaded, 1);
  for (int i = 0; i < 2; ++i) {
    barrier_begin(at.dy_full + 8 * i, 1);
    barrier_begin(at.dy_empty + 8 * i, 2);
    barrier_begin(at.ds_full + 8 * i, 8);
    barrier_begin(at.dq_full + 8 * i, 8);
  }
  for (int i = 0; i < RING; ++i) {
    barrier_begin(at.q_full + 8 * i, 1);
    barrier_begin(at.q_empty + 8 * i, 8);
  }
  barriers_begun();
}

// sums = own rows over the width with a step's rows, 64 of the warp group and all of the step's.
#define OVER_WIDTH(sums, own, step)                                                       \
  UNROLL for (int e = 0; e < WIDTH / 16; ++e) PRODUCT(STEP)(                              \
      sums, operand_at((own) + part * 8192 + e / 4 * KEY_BOX + e % 4 * 32),               \
      operand_at((step) + e / 4 * STEP_BOX + e % 4 * 32), e != 0, "0");                   \
  PRODUCTS_COMMIT;
// out (+)= pairs in registers, 64 x STEP, times a step's rows.
#define OVER_STEP(out, pairs, step, keep)                                                 \
  UNROLL for (int e = 0; e < STEP / 16; ++e) REGISTERS_PRODUCT(WIDTH)(                    \
      out, pairs[e], transposed_boxes_at((step) + e * 2048, STEP), (keep) || e, "1");     \
  PRODUCTS_COMMIT;
// sums = ds k: 64 rows of the step, 64 columns.
#define OVER_KEYS(sums, ds_box, k_box)                                                    \
  UNROLL for (int e = 0; e < KEYS / 16; ++e) TURNED_PRODUCT(64)(                          \
      sums, transposed_boxes_at((ds_box) + e * 2048, KEYS),                               \
      transposed_boxes_at((k_box) + e * 2048, KEYS), e != 0);                             \
  PRODUCTS_COMMIT;

// s = p: rows is where the lane's stats of the step lie.
INLINED void weigh(float* s, uint rows, float scale_2) {
  UNROLL for (int j = 0; j < STEP / 8; ++j) {
    const float2 log_sum = shared_two(rows + 32 * j);
    s[4 * j] = exp2_of(fma(s[4 * j], scale_2, -log_sum.x));
    s[4 * j + 1] = exp2_of(fma(s[4 * j + 1], scale_2, -log_sum.y));
    s[4 * j + 2] = exp2_of(fma(s[4 * j + 2], scale_2, -log_sum.x));
    s[4 * j + 3] = exp2_of(fma(s[4 * j + 3], scale_2, -log_sum.y));
  }
}

// What the rows from t0 on may not see of the lane's keys, key and the 8th after it, has no weight.
INLINED void mask(float* s, uint rows, int key, int t0) {
  UNROLL for (int j = 0; j < STEP / 8; ++j) {
    const float2 starts_of = shared_two(rows + 8 * STEP + 32 * j);
    const int start_0 = as_int(starts_of.x), start_1 = as_int(starts_of.y), t = t0 + 8 * j;
    if (key > t || key < start_0) s[4 * j] = 0.0f;
    if (key > t + 1 || key < start_1) s[4 * j + 1] = 0.0f;
    if (key + 8 > t || key + 8 < start_0) s[4 * j + 2] = 0.0f;
    if (key + 8 > t + 1 || key + 8 < start_1) s[4 * j + 3] = 0.0f;
  }
}

// ds = p * (dp - dot), of p in its rounded form: as floats it would take too many registers.
INLINED void slopes(uint (*ds)[4], uint (*p)[4], const float* dp, uint rows) {
  UNROLL for (int j = 0; j < STEP / 8; ++j) {
    const float2 dot = shared_two(rows + 4 * STEP + 32 * j);
    const uint first = p[j / 2][j % 2 * 2], second = p[j / 2][j % 2 * 2 + 1];
    ds[j / 2][j % 2 * 2] = bf16_pair(as_float(first << 16) * (dp[4 * j] - dot.x),
                                     as_float(first & 0xFFFF0000u) * (dp[4 * j + 1] - dot.y));
    ds[j / 2][j % 2 * 2 + 1] = bf16_pair(as_float(second << 16) * (dp[4 * j + 2] - dot.x),
                                         as_float(second & 0xFFFF0000u) * (dp[4 * j + 3] - dot.y));
  }
}

// to: where the lane's rows of ds^T go.
INLINED void store_slopes(uint to, uint (*ds)[4]) {
  UNROLL for (int j = 0; j < STEP / 16; ++j) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(
                     (to ^ (j % 4 * 32)) + j / 4 * KEY_BOX),
                 "r"(ds[j][0]), "r"(ds[j][1]), "r"(ds[j][2]), "r"(ds[j][3])
                 : "memory");
  }
}

// A lane's sums of dq lie in local memory as it holds them, 16 bytes every 2 KB.
INLINED void add_earlier(float* sums, uint from) {
  UNROLL for (int j = 0; j < 8; ++j) {
    float4 x;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(x.x), "=f"(x.y), "=f"(x.z), "=f"(x.w)
                 : "r"(from + j * 2048)
                 : "memory");
    sums[4 * j] += x.x;
    sums[4 * j + 1] += x.y;
    sums[4 * j + 2] += x.z;
    sums[4 * j + 3] += x.w;
  }
}

INLINED void store_part(uint to, const float* sums) {
  UNROLL for (int j = 0; j < 8; ++j) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + j * 2048),
                 "f"(sums[4 * j]), "f"(sums[4 * j + 1]), "f"(sums[4 * j + 2]),
                 "f"(sums[4 * j + 3])
                 : "memory");
  }
}

// A task's i-th step, upwards or downwards.
int step_of(struct Task task, int i, int upwards) {
  return task.keys * (KEYS / STEP) + (upwards ? i : task.steps - 1 - i);
}

// The first thread: tasks, and all that is read of them.
INLINED void copy_tasks(struct Places at, __global const uchar* maps, __global const float* stats,
                __global const int* steps, __global const int* plan, __global int* counter,
                __global const int* order, int H, int G, int P) {
  const int blocks = P / KEYS, upwards = order[3 * blocks];
  uint stage = 0, phase = 0, dy_stage = 0, dy_phase = 0;
  for (uint turn = 0;; turn ^= 1) {
    const int id = taken(counter);
    __local struct Task* shared_task = (__local struct Task*)(size_t)at.tasks + turn;
    struct Task task = {-1, 0, 0};
    if (id >= blocks * H) {
      barrier_wait(at.k_empty, turn ^ 1);
      *shared_task = task;
      barrier_arrive(at.k_full);
      return;
    }
    const int2 place = place_of(id, blocks, H, upwards);
    task.h = place.x;
    task.keys = order[blocks + place.y];
    task.steps = steps[task.keys];
    const int g = task.h / (H / G);
    __global const int* row = plan + (size_t)task.keys * (P / STEP);
    for (int i = 0; i < task.steps; ++i) {
      const int m = step_of(task, i, upwards), t0 = m * STEP, word = row[m];
      const uint q_full = at.q_full + 8 * stage, rows = at.stats + stage * STATS_BYTES;
      barrier_wait(at.q_empty + 8 * stage, phase ^ 1);
      barrier_expect(q_full, STEP_TILE + STATS_BYTES);
      copy_boxes(at.q + stage * STEP_TILE, STEP_BOX, maps, task.h, t0, q_full);
      copy_bytes(rows, stats + ((size_t)task.h * P + t0) * 3, STATS_BYTES, q_full);
      if (i == 0) {
        barrier_wait(at.v_empty, turn ^ 1);
        barrier_expect(at.v_full, KEY_TILE);
        copy_boxes(at.v, KEY_BOX, maps + 2 * MAP_BYTES, g, task.keys * KEYS, at.v_full);
      }
      barrier_wait(at.dy_empty + 8 * dy_stage, dy_phase ^ 1);
      // The flags ride with dy: there is time for them to come.
      ((__local int2*)(size_t)at.info)[stage] = (int2)(m, word);
      barrier_expect(at.dy_full + 8 * dy_stage, STEP_TILE);
      copy_boxes(at.dy + dy_stage * STEP_TILE, STEP_BOX, maps + 3 * MAP_BYTES, task.h, t0,
                 at.dy_full + 8 * dy_stage);
      if (i == 0) {
        barrier_wait(at.k_empty, turn ^ 1);
        *shared_task = task;
        barrier_expect(at.k_full, KEY_TILE);
        copy_boxes(at.k, KEY_BOX, maps + MAP_BYTES, g, task.keys * KEYS, at.k_full);
      }
      if (++stage == RING) {
        stage = 0;
        phase ^= 1;
      }
      dy_stage ^= 1;
      if (dy_stage == 0) dy_phase ^= 1;
    }
  }
}

// One step's part of dq: into `to`, or from there where it is the last one. full: of this thread.
INLINED void carry_sum(struct Places at, __global float* to, __global int* counter, int word,
                       uint full, uint full_phase, uint before_phase) {
  const int before = word / FLAGS;
  if (before > 0) wait_for(counter, before);
  if (word & IS_LAST) {
    if (before > 0) {
      barrier_wait(at.dq_empty, before_phase);  // the step before has left the buffer
      barrier_expect(at.dq_loaded, DQ_BYTES);
      copy_bytes(at.dq, to, DQ_BYTES, at.dq_loaded);
    }
    barrier_wait(full, full_phase);
    barrier_arrive(at.dq_empty);
    return;
  }
  barrier_wait(full, full_phase);
  if (before > 0) {
    add_bytes(to, at.dq, DQ_BYTES);
  } else {
    store_bytes(to, at.dq, DQ_BYTES);
  }
  stores_read();
  barrier_arrive(at.dq_empty);
  stores_ended();
  release(counter, before + 1);
}

// Two threads: dq's parts between local memory and `sums`, in their order; of all steps `mine` is
// even or odd. dq's buffer is one: it is empty for a step when the other has carried the one before.
INLINED void carry_sums(struct Places at, __global const int* plan, __global int* counters,
                __global float* sums, int upwards, int P, uint mine) {
  const uint full = at.dq_full + 8 * mine;
  uint step = 0;
  for (uint turn = 0;; turn ^= 1) {
    barrier_wait(at.k_full, turn);
    const struct Task task = ((__local struct Task*)(size_t)at.tasks)[turn];
    if (task.keys < 0) return;
    barrier_arrive(at.k_empty);  // without it k_full could turn twice unseen
    __global const int* row = plan + (size_t)task.keys * (P / STEP);
    int i = (step & 1) ^ mine;
    int next = i < task.steps ? row[step_of(task, i, upwards)] : 0;
    for (; i < task.steps; i += 2) {
      const int m = step_of(task, i, upwards), word = next, place = task.h * (P / STEP) + m;
      if (i + 2 < task.steps) next = row[step_of(task, i + 2, upwards)];
      const uint at_step = step + i;
      carry_sum(at, sums + (size_t)place * (DQ_BYTES / 4), counters + place, word, full,
                at_step >> 1 & 1, (at_step & 1) ^ 1);
    }
    step += task.steps;
  }
}

__attribute__((reqd_work_group_size(384, 1, 1))) __kernel void attention_backward_wgmma(
    __global RESULT* dq, __global RESULT* dk, __global RESULT* dv, __global const uchar* maps,
    __global const float* stats, __global const int* steps, __global int* plan,
    __global float* sums, __global const int* order, int T, int H, int G, int P, float scale) {
  __local uchar tiles[2 * KEY_TILE + (RING + 2) * STEP_TILE + 2 * DS_TILE + DQ_BYTES]
      __attribute__((aligned(1024)));
  __local float ring_stats[RING][3 * STEP] __attribute__((aligned(16)));
  __local int2 info[RING];  // which step, and its word of the plan
  __local struct Task tasks[2];
  __local ulong barriers[6 + 2 * RING + 8];
  const int item = get_local_id(0), lane = item % 32;
  struct Places at = places_from(shared_address(tiles), shared_address(barriers));
  at.stats = shared_address(ring_stats);
  at.info = shared_address(info);
  at.tasks = shared_address(tasks);
  if (item == 0) {
    begin_barriers(at);
    for (int i = 0; i < 4; ++i) map_written(maps + i * MAP_BYTES);
  }
  barrier(CLK_LOCAL_MEM_FENCE);  // all see the barriers
  if (item < 128) {
    FEWEST_REGISTERS;
    if (item == 0) {
      copy_tasks(at, maps, stats, steps, plan + COUNTERS(H, P), plan + COUNTERS(H, P) - 1, order, H,
                 G, P);
    } else if (item == 32 || item == 64) {
      carry_sums(at, plan + COUNTERS(H, P), plan, sums, order[3 * (P / KEYS)], P, item / 32 - 1);
    }
    return;
  }
  MOST_REGISTERS;
  const float scale_2 = scale * LOG2_E;
  const bool tells = item % 128 == 0;
  // Where a lane's rows of ds^T go: row lane % 16 of the warp's, 16 bytes at place lane / 16.
  const uint ds_lane = at.ds + (item / 32 * 16 - 64 + (lane & 15)) * 128 +
                       (((lane >> 4) ^ (lane & 7)) << 4);
  float s[STEP / 2], dp[STEP / 2], dk_sums[WIDTH / 2], dv_sums[WIDTH / 2], dq_sums[32];
  uint p[STEP / 16][4], ds[STEP / 16][4];
  uint stage = 0, phase = 0, step = 0, loaded_phase = 0;
  for (uint turn = 0;; turn ^= 1) {
    int part = warp_first(item / 128 - 1);
    barrier_wait(at.k_full, turn);
    if (shared_int(at.tasks + turn * TASK_BYTES) < 0) return;
    const int count = shared_int(at.tasks + turn * TASK_BYTES + 4);
    barrier_wait(at.q_full + 8 * stage, phase);
    PRODUCTS_FENCE;
    OVER_WIDTH(s, at.k, at.q + stage * STEP_TILE)
    barrier_wait(at.v_full, turn);
    PRODUCTS_ENDED(STEP)(s);
    for (int i = 0; i < count; ++i, ++step) {
      part = warp_first(item / 128 - 1);  // else its operands would be kept in registers
      const uint turned = step & 1, turned_phase = step >> 1 & 1;  // of the rings of two
      const uint dy = at.dy + turned * STEP_TILE, ds_tile = at.ds + turned * DS_TILE;
      const uint rows = at.stats + stage * STATS_BYTES + lane % 4 * 8;
      const uint before = stage ? stage - 1 : RING - 1;
      const uint next = stage == RING - 1 ? 0 : stage + 1, next_phase = next ? phase : phase ^ 1;
      barrier_wait(at.dy_full + 8 * turned, turned_phase);
      PRODUCTS_FENCE;
      OVER_WIDTH(dp, at.v, dy)
      weigh(s, rows, scale_2);
      const int word = shared_int(at.info + 8 * stage + 4);
      if (word & IS_MASKED) {
        const int key = shared_int(at.tasks + turn * TASK_BYTES) * KEYS + part * 64 +
                        item % 128 / 32 * 16 + lane / 4;
        mask(s, rows, key, shared_int(at.info + 8 * stage) * STEP + lane % 4 * 2);
      }
      UNROLL for (int j = 0; j < STEP / 4; ++j) {
        p[j / 4][j % 4] = bf16_pair(s[2 * j], s[2 * j + 1]);
      }
      PRODUCTS_ENDED(STEP)(dp);
      if (lane == 0 && i > 0) barrier_arrive(at.q_empty + 8 * before);
      // Every warp of the group has begun the product, which has ended.
      if (tells && i == count - 1) barrier_arrive(at.v_empty);
      PRODUCTS_FENCE;
      OVER_STEP(dv_sums, p, dy, i)
      slopes(ds, p, dp, rows);
      PRODUCTS_ENDED(WIDTH)(dv_sums);  // ran beside that; were it in flight further, all would wait
      if (tells) barrier_arrive(at.dy_empty + 8 * turned);
      store_slopes(ds_lane + turned * DS_TILE, ds);
      warp_stored(at.ds_full + 8 * turned, lane);
      // The next step's scores; behind the last step for nothing, for a branch would serialise all.
      if (i + 1 < count) barrier_wait(at.q_full + 8 * next, next_phase);
      PRODUCTS_FENCE;
      OVER_WIDTH(s, at.k, at.q + next * STEP_TILE)
      barrier_wait(at.ds_full + 8 * turned, turned_phase);
      PRODUCTS_FENCE;
      OVER_KEYS(dq_sums, ds_tile + (WIDTH == 64 ? part * KEY_BOX : 0),
                at.k + (WIDTH == 64 ? 0 : part * KEY_BOX))
      OVER_STEP(dk_sums, ds, at.q + stage * STEP_TILE, i)
      EARLIER_ENDED(STEP)(s);
      EARLIER_ENDED(64)(dq_sums);
      if (tells && i == count - 1) barrier_arrive(at.k_empty);
      barrier_wait(at.dq_empty, step & 1 ^ 1);
      const uint dq_lane = at.dq + part * 16384 + item % 128 * 16;
      if (word & IS_LAST) {
        if (word >= FLAGS) {
          barrier_wait(at.dq_loaded, loaded_phase);
          loaded_phase ^= 1;
          add_earlier(dq_sums, dq_lane);
        }
        warp_stored(at.dq_full + 8 * turned, lane);
        const int t = shared_int(at.info + 8 * stage) * STEP + (WIDTH == 64 ? part * 64 : 0) +
                      item % 128 / 32 * 16 + lane / 4;
        const int h = shared_int(at.tasks + turn * TASK_BYTES + 8);
        store_rows(dq + ((size_t)t * H + h) * WIDTH + (WIDTH == 64 ? 0 : part * 64), H * WIDTH, T - t,
                   dq_sums, scale, scale, lane);
      } else {
        store_part(dq_lane, dq_sums);
        warp_stored(at.dq_full + 8 * turned, lane);
      }
      PRODUCTS_ENDED(WIDTH)(dk_sums);  // ran beside the writing of dq
      stage = next;
      phase = next_phase;
    }
    PRODUCTS_ENDED(WIDTH)(dk_sums);
    PRODUCTS_ENDED(WIDTH)(dv_sums);
    warp_together();
    if (lane == 0) barrier_arrive(at.q_empty + 8 * (stage ? stage - 1 : RING - 1));
    const int key = shared_int(at.tasks + turn * TASK_BYTES) * KEYS + part * 64 +
                    item % 128 / 32 * 16 + lane / 4;
    const int h = shared_int(at.tasks + turn * TASK_BYTES + 8);
    const size_t to = ((size_t)key * H + h) * WIDTH;
    UNROLL for (int b = 0; b < BOXES; ++b) {
      store_rows(dv + to + 64 * b, H * WIDTH, T - key, dv_sums + 32 * b, 1.0f, 1.0f, lane);
      store_rows(dk + to + 64 * b, H * WIDTH, T - key, dk_sums + 32 * b, scale, scale, lane);
    }
  }
}
