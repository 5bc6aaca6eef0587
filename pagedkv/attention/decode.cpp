// Paged attention of a decode step on the CPU: each sequence has one new token, which attends to all its cached ones.
//
// Built and loaded by compiled.py, which has checked all shapes, types and table entries; nothing is checked here.
//
//   row     the keys (or values) of one token in one KV head: head_dim numbers that lie side by side
//   group   the query heads that share a KV head. A row is read from memory once for its whole group.
//   tile    up to 32 tokens that are worked on together, wherever their blocks lie: first all their scores, then the
//           softmax, then the weighted sum of their values. A tile's rows fit in the L1 cache.
//   chunk   up to 512 tokens of one sequence and one KV head: what one thread takes at a time. A sequence of several
//           chunks leaves a partial result of each, merged in the end. Where chunks begin does not depend on the
//           number of threads, and they are merged in order: so the result does not depend on it either.
//   online softmax
//           The largest score so far is subtracted from all. When a larger one comes, what was summed is scaled down.
//
// The vectors are those of GCC's and Clang's language extension, which every processor has in some width. They fix the
// order of all additions, so no compiler flag has to allow changes to it.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

namespace {

typedef float Floats __attribute__((vector_size(VECTOR_BYTES)));
typedef int32_t Ints __attribute__((vector_size(VECTOR_BYTES)));
constexpr int LANES = VECTOR_BYTES / 4;
constexpr int TILE = 32;
constexpr int CHUNK = 512;
constexpr int ROWS_AT_ONCE = 4;
constexpr int CACHE_LINE_BYTES = 64;
// Waking the other threads costs some microseconds, in which one thread gets through about this much.
constexpr int64_t BYTES_WORTH_A_THREAD = 128 * 1024;

// The same fields in the same order as `_Call` in compiled.py. Strides are counted in elements.
struct Call {
    const float *query;  // [num_sequences, num_kv_heads * group, head_dim]
    float *output;       // the same
    const void *keys, *values;  // [num_blocks, num_kv_heads, block_size, head_dim], rows without gaps
    const uint16_t *key_scales, *value_scales;  // fp16 [num_blocks, num_kv_heads, block_size], for int8 rows only
    const int32_t *block_tables;  // [num_sequences, table_width]
    const int32_t *context_lens;  // [num_sequences]
    void *parallel;  // GOMP_parallel of the OpenMP library that torch uses; null: one thread
    int64_t block_stride, head_stride, token_stride;
    int64_t scale_block_stride, scale_head_stride, scale_token_stride;
    int64_t num_sequences, table_width, num_kv_heads, group, head_dim, block_size;
    int32_t row_type;  // 0 float32, 1 float16, 2 bfloat16, 3 int8
    int32_t num_threads;
    float scale;
};

typedef void (*Parallel)(void (*)(void *), void *, unsigned num_threads, unsigned flags);

struct Half { uint16_t bits; };
struct BFloat { uint16_t bits; };

struct Task {
    int32_t sequence, head, first_token, num_tokens;
    int64_t partial;  // which place its partial result has; -1: it is the sequence's only chunk, so write the output
};

inline Floats load(const float *from) { Floats x; std::memcpy(&x, from, sizeof x); return x; }
inline void store(float *to, Floats x) { std::memcpy(to, &x, sizeof x); }
inline Floats all(float x) { return Floats{} + x; }

inline float sum_lanes(Floats x) {
    // In halves, as that is how it is done in the fewest instructions.
    float lanes[LANES];
    store(lanes, x);
    for (int width = LANES / 2; width > 0; width /= 2)
        for (int i = 0; i < width; i++) lanes[i] += lanes[i + width];
    return lanes[0];
}

// 2 to the power of x ≤ 0, to about 1e-7 of its value; 0 below -125, where the exponent of a float ends. NaN stays NaN.
// x = whole + part with part in [-0.5, 0.5]; the polynomial is the Chebyshev fit of degree 6 to 2^part.
inline Floats exp2_of_negative(Floats x) {
    const Floats to_whole = all(12582912.0f);  // 1.5 * 2^23: the sum has no bits left for a fraction
    Floats clamped = x < all(-126.0f) ? all(-126.0f) : x;
    Floats whole = (clamped + to_whole) - to_whole;
    Floats part = clamped - whole;
    Floats power = all(1.5465169e-4f);
    power = power * part + all(1.3392899e-3f);
    power = power * part + all(9.6178398e-3f);
    power = power * part + all(5.5503290e-2f);
    power = power * part + all(2.4022651e-1f);
    power = power * part + all(6.9314720e-1f);
    power = power * part + all(1.0f);
    Ints exponent = (__builtin_convertvector(whole, Ints) + 127) << 23;
    Floats scale;
    std::memcpy(&scale, &exponent, sizeof scale);
    return x < all(-125.0f) ? all(0.0f) : power * scale;
}

inline float widen(float x) { return x; }
inline float widen(int8_t x) { return x; }

inline float widen(BFloat x) {
    uint32_t bits = uint32_t(x.bits) << 16;
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline float widen(Half x) {
    // Exponent and mantissa moved to where a float has them. The exponent is then too small by 112, for a subnormal
    // number as well; infinity and NaN need a float's largest exponent. Without a branch, so that it is vectorised.
    uint32_t magnitude = uint32_t(x.bits & 0x7fff) << 13;
    float value;
    std::memcpy(&value, &magnitude, sizeof value);
    value *= 0x1p112f;
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    bits |= magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0u;
    bits |= uint32_t(x.bits & 0x8000) << 16;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

template <class Number> inline void widen_row(const Number *from, int64_t n, float *to) {
    for (int64_t i = 0; i < n; i++) to[i] = widen(from[i]);
}

// What one thread works in; kept between calls, because the pages of fresh memory cost more than the work on them.
struct Scratch {
    struct alignas(CACHE_LINE_BYTES) Line { float numbers[CACHE_LINE_BYTES / 4]; };
    std::vector<Line> lines;
    float *query, *sums, *scores, *rows, *largest, *totals;

    void make_room(int64_t group, int64_t width) {
        // each part begins on a cache line
        auto rounded = [](int64_t n) { return (n + 15) / 16 * 16; };
        int64_t heads = rounded(group * width), scored = rounded(group * TILE), row_part = rounded(TILE * width);
        int64_t needed = (2 * heads + scored + row_part + 2 * rounded(group)) / 16;
        if (int64_t(lines.size()) < needed) lines.resize(needed);
        query = lines[0].numbers;
        sums = query + heads;
        scores = sums + heads;
        rows = scores + scored;
        largest = rows + row_part;
        totals = largest + rounded(group);
    }
};

// Where the rows of a tile lie: offsets from the start of the keys, and of their scales.
struct Places {
    int64_t row[TILE], scale[TILE];
};

void find_rows(const Call &call, const Task &task, int64_t first_token, int64_t n, Places &places) {
    const int32_t *table = call.block_tables + task.sequence * call.table_width;
    int64_t logical = first_token / call.block_size, slot = first_token % call.block_size;
    for (int64_t i = 0; i < n;) {
        int64_t block = table[logical++];
        int64_t row = block * call.block_stride + task.head * call.head_stride;
        int64_t scale = block * call.scale_block_stride + task.head * call.scale_head_stride;
        for (; slot < call.block_size && i < n; slot++, i++) {
            places.row[i] = row + slot * call.token_stride;
            places.scale[i] = scale + slot * call.scale_token_stride;
        }
        slot = 0;
    }
}

inline void prefetch(const void *from, int64_t size_bytes) {
    for (int64_t at = 0; at < size_bytes; at += CACHE_LINE_BYTES)
        __builtin_prefetch(static_cast<const char *>(from) + at);
}

// The scores of four rows for HEADS query heads. More of either at once would not fit in the registers.
template <int HEADS>
inline void score(const float *query, int64_t width, const float *const *rows, float *scores) {
    Floats sums[HEADS][ROWS_AT_ONCE];
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < ROWS_AT_ONCE; r++) sums[h][r] = Floats{};
    for (int64_t d = 0; d < width; d += LANES) {
        Floats row[ROWS_AT_ONCE];
        for (int r = 0; r < ROWS_AT_ONCE; r++) row[r] = load(rows[r] + d);
        for (int h = 0; h < HEADS; h++) {
            Floats q = load(query + h * width + d);
            for (int r = 0; r < ROWS_AT_ONCE; r++) sums[h][r] += q * row[r];
        }
    }
    for (int h = 0; h < HEADS; h++)
        for (int r = 0; r < ROWS_AT_ONCE; r++) scores[h * TILE + r] = sum_lanes(sums[h][r]);
}

template <int HEADS, int VECTORS>
inline void add_values(const float *weights, const float *const *rows, int64_t n, int64_t d, float *sums,
                       int64_t width) {
    Floats sum[HEADS][VECTORS];
    for (int h = 0; h < HEADS; h++)
        for (int v = 0; v < VECTORS; v++) sum[h][v] = load(sums + h * width + d + v * LANES);
    for (int64_t i = 0; i < n; i++) {
        Floats row[VECTORS];
        for (int v = 0; v < VECTORS; v++) row[v] = load(rows[i] + d + v * LANES);
        for (int h = 0; h < HEADS; h++) {
            Floats weight = all(weights[h * TILE + i]);
            for (int v = 0; v < VECTORS; v++) sum[h][v] += weight * row[v];
        }
    }
    for (int h = 0; h < HEADS; h++)
        for (int v = 0; v < VECTORS; v++) store(sums + h * width + d + v * LANES, sum[h][v]);
}

template <int HEADS>
inline void add_values(const float *weights, const float *const *rows, int64_t n, float *sums, int64_t width) {
    int64_t d = 0;
    for (; d + 4 * LANES <= width; d += 4 * LANES) add_values<HEADS, 4>(weights, rows, n, d, sums, width);
    for (; d < width; d += LANES) add_values<HEADS, 1>(weights, rows, n, d, sums, width);
}

// Calls work(first head, constant number of heads) until a group is through, three or two at a time if possible.
template <class Work> inline void by_heads(int64_t group, Work work) {
    for (int64_t head = 0; head < group;) {
        int64_t left = group - head;
        if (left == 3 || left > 4) { work(head, std::integral_constant<int, 3>()); head += 3; }
        else if (left >= 2) { work(head, std::integral_constant<int, 2>()); head += 2; }
        else { work(head, std::integral_constant<int, 1>()); head += 1; }
    }
}

// Rows as floats of `width`, a whole number of vectors: as they lie in the pool if they are that already, else copied.
template <class Number> struct Rows {
    const Call &call;
    int64_t width;
    const float *row[TILE + ROWS_AT_ONCE];

    void take(const Number *start, const Places &places, int64_t n, float *room) {
        for (int64_t i = 0; i < n; i++) {
            row[i] = room + i * width;
            widen_row(start + places.row[i], call.head_dim, room + i * width);
        }
    }
};

template <> void Rows<float>::take(const float *start, const Places &places, int64_t n, float *room) {
    bool in_place = width == call.head_dim;
    for (int64_t i = 0; i < n; i++) {
        row[i] = in_place ? start + places.row[i] : room + i * width;
        if (!in_place) std::memcpy(room + i * width, start + places.row[i], call.head_dim * sizeof(float));
    }
}

void soften(float *scores, float &largest, float &total, float *sums, int64_t width) {
    // Scores (logarithms to base 2) become weights. The largest so far, their total and the weighted sums are kept up.
    float most = largest;
    for (int i = 0; i < TILE; i++) most = scores[i] > most ? scores[i] : most;
    if (most > largest) {
        const float shrink = exp2_of_negative(all(largest - most))[0];
        total *= shrink;
        for (int64_t d = 0; d < width; d += LANES) store(sums + d, load(sums + d) * shrink);
        largest = most;
    }
    Floats weights = {};
    for (int i = 0; i < TILE; i += LANES) {
        Floats weight = exp2_of_negative(load(scores + i) - largest);
        store(scores + i, weight);
        weights += weight;
    }
    total += sum_lanes(weights);
}

template <class Number> void run_task(const Call &call, const Task &task, float *partials) {
    static thread_local Scratch scratch;
    const bool scaled = std::is_same<Number, int8_t>::value;
    const int64_t group = call.group, head_dim = call.head_dim;
    const int64_t width = (head_dim + LANES - 1) / LANES * LANES;
    scratch.make_room(group, width);
    float *query = scratch.query, *sums = scratch.sums, *scores = scratch.scores;
    std::fill(scratch.query, scratch.largest, 0.0f);  // beyond head_dim everything stays 0
    std::fill(scratch.largest, scratch.largest + group, -INFINITY);
    std::fill(scratch.totals, scratch.totals + group, 0.0f);

    const int64_t first_head = (task.sequence * call.num_kv_heads + task.head) * group;
    const float to_base_2 = call.scale * 1.44269504f;
    for (int64_t h = 0; h < group; h++)
        for (int64_t d = 0; d < head_dim; d++)
            query[h * width + d] = call.query[(first_head + h) * head_dim + d] * to_base_2;

    const Number *keys = static_cast<const Number *>(call.keys), *values = static_cast<const Number *>(call.values);
    const int64_t row_bytes = head_dim * sizeof(Number);
    Rows<Number> rows{call, width, {}};
    Places places[2];
    const int64_t end = int64_t(task.first_token) + task.num_tokens;
    int64_t n = std::min<int64_t>(TILE, task.num_tokens);
    find_rows(call, task, task.first_token, n, places[0]);
    int now = 0;
    for (int64_t token = task.first_token; token < end; now = 1 - now) {
        // The next tile's rows are fetched while this one is worked on: they may lie anywhere, so no hardware
        // prefetcher can guess them. Without it, long contexts take 1.3 times as long.
        const int64_t next_n = std::min<int64_t>(TILE, end - token - n);
        const Places &here = places[now], &next = places[1 - now];
        if (next_n > 0) find_rows(call, task, token + n, next_n, places[1 - now]);

        rows.take(keys, here, n, scratch.rows);
        for (int r = 0; r < ROWS_AT_ONCE; r++) rows.row[n + r] = rows.row[n - 1];  // the last four may be fewer
        for (int64_t i = 0; i < n; i += ROWS_AT_ONCE) {
            for (int64_t j = i; j < std::min(i + ROWS_AT_ONCE, next_n); j++) {
                prefetch(keys + next.row[j], row_bytes);
                prefetch(values + next.row[j], row_bytes);
            }
            by_heads(group, [&](int64_t head, auto heads) {
                score<heads.value>(query + head * width, width, rows.row + i, scores + head * TILE + i);
            });
        }
        for (int64_t h = 0; h < group; h++) {
            if (scaled)
                for (int64_t i = 0; i < n; i++) scores[h * TILE + i] *= widen(Half{call.key_scales[here.scale[i]]});
            for (int64_t i = n; i < TILE; i++) scores[h * TILE + i] = -INFINITY;
            soften(scores + h * TILE, scratch.largest[h], scratch.totals[h], sums + h * width, width);
            if (scaled)
                for (int64_t i = 0; i < n; i++) scores[h * TILE + i] *= widen(Half{call.value_scales[here.scale[i]]});
        }
        rows.take(values, here, n, scratch.rows);
        by_heads(group, [&](int64_t head, auto heads) {
            add_values<heads.value>(scores + head * TILE, rows.row, n, sums + head * width, width);
        });
        token += n;
        n = next_n;
    }

    if (task.partial < 0) {
        for (int64_t h = 0; h < group; h++)
            for (int64_t d = 0; d < head_dim; d++)
                call.output[(first_head + h) * head_dim + d] = sums[h * width + d] / scratch.totals[h];
    } else {
        float *partial = partials + task.partial * group * (head_dim + 2);
        for (int64_t h = 0; h < group; h++, partial += head_dim + 2) {
            partial[0] = scratch.largest[h];
            partial[1] = scratch.totals[h];
            std::copy(sums + h * width, sums + h * width + head_dim, partial + 2);
        }
    }
}

// The partial results of one sequence and KV head, the first chunk's first; they lie `apart` places from each other.
void merge(const Call &call, const Task &first, int64_t num_chunks, int64_t apart, const float *partials) {
    const int64_t size = call.head_dim + 2;
    for (int64_t h = 0; h < call.group; h++) {
        auto partial = [&](int64_t chunk) {
            return partials + ((first.partial + chunk * apart) * call.group + h) * size;
        };
        float largest = -INFINITY, total = 0;
        for (int64_t chunk = 0; chunk < num_chunks; chunk++) largest = std::max(largest, partial(chunk)[0]);
        float *output = call.output + ((first.sequence * call.num_kv_heads + first.head) * call.group + h)
                        * call.head_dim;
        std::fill(output, output + call.head_dim, 0.0f);
        for (int64_t chunk = 0; chunk < num_chunks; chunk++) {
            const float *from = partial(chunk);
            const float weight = exp2_of_negative(all(from[0] - largest))[0];
            total += weight * from[1];
            for (int64_t d = 0; d < call.head_dim; d++) output[d] += weight * from[2 + d];
        }
        for (int64_t d = 0; d < call.head_dim; d++) output[d] /= total;
    }
}

struct Work {
    const Call &call;
    const std::vector<Task> &tasks;
    float *partials;
    std::atomic<int64_t> next{0};
    std::atomic<bool> failed{false};
};

// What every thread does: take the next task until there is none. Which thread gets which does not change the result.
void run_tasks(void *data) {
    Work &work = *static_cast<Work *>(data);
    try {
        for (int64_t i; (i = work.next++) < int64_t(work.tasks.size());) {
            switch (work.call.row_type) {
                case 0: run_task<float>(work.call, work.tasks[i], work.partials); break;
                case 1: run_task<Half>(work.call, work.tasks[i], work.partials); break;
                case 2: run_task<BFloat>(work.call, work.tasks[i], work.partials); break;
                default: run_task<int8_t>(work.call, work.tasks[i], work.partials);
            }
        }
    } catch (...) {
        work.failed = true;  // no exception may leave the library
    }
}

void decode(const Call &call, bool &failed) {
    static thread_local std::vector<Task> tasks;
    static thread_local std::vector<float> partials;
    tasks.clear();
    int64_t num_partials = 0, num_rows = 0;
    for (int32_t sequence = 0; sequence < call.num_sequences; sequence++) {
        const int32_t length = call.context_lens[sequence];
        num_rows += length * call.num_kv_heads;
        for (int32_t first = 0; first < length; first += CHUNK)
            for (int32_t head = 0; head < call.num_kv_heads; head++)
                tasks.push_back({sequence, head, first, std::min(CHUNK, length - first),
                                 length > CHUNK ? num_partials++ : -1});
    }
    const size_t partial_size = num_partials * call.group * (call.head_dim + 2);
    if (partials.size() < partial_size) partials.resize(partial_size);

    Work work{call, tasks, partials.data()};
    const int64_t element_bytes = call.row_type == 0 ? 4 : call.row_type == 3 ? 1 : 2;
    const int64_t most_threads = 1 + num_rows * 2 * call.head_dim * element_bytes / BYTES_WORTH_A_THREAD;
    const int64_t num_threads = std::min({int64_t(call.num_threads), most_threads, int64_t(tasks.size())});
    if (call.parallel && num_threads > 1)
        reinterpret_cast<Parallel>(call.parallel)(run_tasks, &work, unsigned(num_threads), 0);
    else
        run_tasks(&work);
    failed = work.failed;
    if (failed) return;

    for (size_t i = 0; i < tasks.size(); i++)
        if (tasks[i].partial >= 0 && tasks[i].first_token == 0)
            merge(call, tasks[i], (call.context_lens[tasks[i].sequence] + CHUNK - 1) / CHUNK, call.num_kv_heads,
                  partials.data());
}

}  // namespace

extern "C" {

// 0, or 1 if there was no memory for what it works in.
int pagedkv_decode(const Call *call) {
    bool failed = true;
    try {
        decode(*call, failed);
    } catch (...) {
    }
    return failed;
}

// For tests: how exact the exponential is.
void pagedkv_exp2(const float *from, float *to, int64_t n) {
    for (int64_t i = 0; i < n; i++) to[i] = exp2_of_negative(all(from[i]))[0];
}

}
