// expect: accepted
// needs: g++
//
// A tuned CPU router. Every choice is computed once; the k-th largest of the 16 lane maxima bounds the
// k-th largest choice from below, so only a handful of candidates (about 11 for 384 experts, k = 8) has
// to be ranked, and those are ranked by counting, without a branch that could be mispredicted.
// The AVX-512 path is picked at run time; everything it does not cover takes the portable one.

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>

#if defined(__x86_64__) && !defined(PORTABLE_ONLY)
#include <immintrin.h>
#define WITH_AVX512 1
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx2,fma")))
#else
#define WITH_AVX512 0
#endif

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-trapping-math")  // lets the plain loops of the portable path use SIMD
#endif

namespace {

constexpr int kMaxExperts = 4096;
constexpr int kMaxChosen = 256;
constexpr int kMaxGroups = 256;
constexpr float kNever = -std::numeric_limits<float>::infinity();

struct Router {
  int experts, k, n_group, topk_group;
  float scale;
  bool renormalise;
  const float* bias;
};

// One row's working set.
struct alignas(64) Row {
  float s[kMaxExperts];
  float choice[kMaxExperts];
};

inline float from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

// 1 / (1 + 2^(-x log2 e)), with 2^f by its series to the 6th power: about 1e-7 relative.
inline float sigmoid(float x) {
  float y = x * -1.44269504f;
  y = y > -126.0f ? y : -126.0f;
  y = y < 126.0f ? y : 126.0f;
  const float shifted = y + 12582912.0f;  // 1.5 * 2^23: the addition rounds to a whole number
  const float f = (y - (shifted - 12582912.0f)) * 0.693147181f;
  float p = 1.0f / 720;
  p = p * f + 1.0f / 120;
  p = p * f + 1.0f / 24;
  p = p * f + 1.0f / 6;
  p = p * f + 0.5f;
  p = p * f + 1.0f;
  p = p * f + 1.0f;
  uint32_t bits;
  std::memcpy(&bits, &p, sizeof bits);
  uint32_t power;
  std::memcpy(&power, &shifted, sizeof power);
  bits += power << 23;
  std::memcpy(&p, &bits, sizeof p);
  return 1.0f / (1.0f + p);
}

void score(const Router& r, const uint16_t* logits, Row& row) {
  for (int i = 0; i < r.experts; ++i) {
    const float x = from_bf16(logits[i]);
    const float s = sigmoid(x);
    const float choice = s + r.bias[i];
    const bool usable = x == x && choice > kNever;
    row.s[i] = usable ? s : 0.0f;
    row.choice[i] = usable ? choice : kNever;
  }
}

// Closes the groups that are not among the topk_group best.
void mask_groups(const Router& r, Row& row) {
  const int size = r.experts / r.n_group;
  float scores[kMaxGroups];
  bool kept[kMaxGroups] = {};
  for (int g = 0; g < r.n_group; ++g) {
    float first = kNever, second = kNever;
    for (int i = g * size; i < (g + 1) * size; ++i) {
      const float c = row.choice[i];
      second = std::max(second, std::min(first, c));
      first = std::max(first, c);
    }
    scores[g] = size > 1 ? first + second : first;
  }
  for (int n = 0; n < r.topk_group; ++n) {
    int best = -1;
    for (int g = 0; g < r.n_group; ++g)
      if (!kept[g] && (best < 0 || scores[g] > scores[best])) best = g;
    kept[best] = true;
  }
  for (int g = 0; g < r.n_group; ++g) {
    if (kept[g]) continue;
    std::fill_n(row.choice + g * size, size, kNever);
    std::fill_n(row.s + g * size, size, 0.0f);
  }
}

// Experts whose choice is at least the k-th largest maximum of 64 strided lanes.
int candidates_of(const Row& row, int experts, int k, int32_t* candidates) {
  constexpr int kLanes = 64;
  float bound = kNever;
  if (k <= kLanes && experts >= 2 * kLanes) {
    float largest[kLanes];
    std::memcpy(largest, row.choice, sizeof largest);
    int i = kLanes;
    for (; i + kLanes <= experts; i += kLanes)
      for (int j = 0; j < kLanes; ++j) {
        const float c = row.choice[i + j];
        largest[j] = largest[j] > c ? largest[j] : c;
      }
    std::nth_element(largest, largest + k - 1, largest + kLanes, std::greater<float>());
    bound = largest[k - 1];
  }
  int n = 0;
  for (int i = 0; i < experts; ++i) {
    candidates[n] = i;
    n += row.choice[i] >= bound;
  }
  return n;
}

// ids of the k largest of n candidates, by insertion.
void select(const Row& row, const int32_t* candidates, int n, int k, int32_t* ids) {
  float best[kMaxChosen];
  int held = 0;
  for (int j = 0; j < n; ++j) {
    const int32_t id = candidates[j];
    const float c = row.choice[id];
    if (held == k && !(c > best[k - 1])) continue;
    int at = held < k ? held++ : k - 1;
    for (; at > 0 && best[at - 1] < c; --at) {
      best[at] = best[at - 1];
      ids[at] = ids[at - 1];
    }
    best[at] = c;
    ids[at] = id;
  }
}

void weigh(const Router& r, const Row& row, const int32_t* ids, float* weights) {
  float sum = 0.0f;
  for (int j = 0; j < r.k; ++j) sum += row.s[ids[j]];
  const float factor = r.renormalise ? r.scale / std::max(sum, 1e-20f) : r.scale;
  for (int j = 0; j < r.k; ++j) weights[j] = row.s[ids[j]] * factor;
}

void route_portable(const Router& r, const uint16_t* logits, int64_t tokens, float* weights,
                    int32_t* ids) {
  Row row;
  int32_t candidates[kMaxExperts];
  for (int64_t t = 0; t < tokens; ++t) {
    score(r, logits + t * r.experts, row);
    if (r.n_group > 1) mask_groups(r, row);
    const int n = candidates_of(row, r.experts, r.k, candidates);
    select(row, candidates, n, r.k, ids + t * r.k);
    weigh(r, row, ids + t * r.k, weights + t * r.k);
  }
}

#if WITH_AVX512

AVX512 inline __m512 sigmoid16(__m512 x) {
  const __m512 y = _mm512_min_ps(
      _mm512_max_ps(_mm512_mul_ps(x, _mm512_set1_ps(-1.44269504f)), _mm512_set1_ps(-126.0f)),
      _mm512_set1_ps(126.0f));
  const __m512 whole = _mm512_roundscale_ps(y, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 f = _mm512_mul_ps(_mm512_sub_ps(y, whole), _mm512_set1_ps(0.693147181f));
  __m512 p = _mm512_set1_ps(1.0f / 720);
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f / 120));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f / 24));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f / 6));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(0.5f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1.0f));
  const __m512 d = _mm512_add_ps(_mm512_scalef_ps(p, whole), _mm512_set1_ps(1.0f));
  const __m512 guess = _mm512_rcp14_ps(d);  // one Newton step makes its 14 bits 24
  return _mm512_mul_ps(guess, _mm512_fnmadd_ps(d, guess, _mm512_set1_ps(2.0f)));
}

// How many lanes are larger, an equal one counting if it comes first: a permutation of 0..15.
AVX512 inline __m512i rank16(__m512 v) {
  __m512i rank = _mm512_setzero_si512();
  const __m512i one = _mm512_set1_epi32(1);
  for (int j = 0; j < 16; ++j) {
    const __m512 other = _mm512_permutexvar_ps(_mm512_set1_epi32(j), v);
    const __mmask16 later = static_cast<__mmask16>(0xFFFEu << j);
    const __mmask16 larger = _mm512_cmp_ps_mask(other, v, _CMP_GT_OQ) |
                             (_mm512_cmp_ps_mask(other, v, _CMP_EQ_OQ) & later);
    rank = _mm512_mask_add_epi32(rank, larger, rank, one);
  }
  return rank;
}

// Fills row and returns the maximum of every lane. experts must be a multiple of 16.
AVX512 inline __m512 score16(const Router& r, const uint16_t* logits, Row& row) {
  const __m512 never = _mm512_set1_ps(kNever);
  __m512 largest = never;
  for (int i = 0; i < r.experts; i += 16) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(logits + i));
    const __m512 x = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    const __m512 s = sigmoid16(x);
    const __m512 sum = _mm512_add_ps(s, _mm512_loadu_ps(r.bias + i));
    const __mmask16 usable = _mm512_cmp_ps_mask(x, x, _CMP_ORD_Q) &
                             _mm512_cmp_ps_mask(sum, never, _CMP_GT_OQ);
    const __m512 choice = _mm512_mask_blend_ps(usable, never, sum);
    _mm512_store_ps(row.s + i, _mm512_maskz_mov_ps(usable, s));
    _mm512_store_ps(row.choice + i, choice);
    largest = _mm512_max_ps(largest, choice);
  }
  return largest;
}

// Experts whose choice is at least the k-th largest lane maximum, k <= 16.
AVX512 inline int gather_candidates(const Row& row, int experts, __m512 largest, int k,
                                    int32_t* candidates) {
  const __mmask16 kth = _mm512_cmpeq_epi32_mask(rank16(largest), _mm512_set1_epi32(k - 1));
  const __m512 bound = _mm512_set1_ps(_mm512_cvtss_f32(_mm512_maskz_compress_ps(kth, largest)));
  __m512i ids = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  int n = 0;
  for (int i = 0; i < experts; i += 16) {
    const __mmask16 hit = _mm512_cmp_ps_mask(_mm512_load_ps(row.choice + i), bound, _CMP_GE_OQ);
    _mm512_storeu_si512(candidates + n, _mm512_maskz_compress_epi32(hit, ids));
    n += __builtin_popcount(hit);
    ids = _mm512_add_epi32(ids, _mm512_set1_epi32(16));
  }
  return n;
}

AVX512 void route_avx512(const Router& r, const uint16_t* logits, int64_t tokens, float* weights,
                         int32_t* ids) {
  Row row;
  alignas(64) int32_t candidates[kMaxExperts + 16];
  const __mmask16 wanted = static_cast<__mmask16>((1u << r.k) - 1);
  for (int64_t t = 0; t < tokens; ++t, ids += r.k, weights += r.k) {
    __m512 largest = score16(r, logits + t * r.experts, row);
    if (r.n_group > 1) {
      mask_groups(r, row);
      largest = _mm512_load_ps(row.choice);
      for (int i = 16; i < r.experts; i += 16)
        largest = _mm512_max_ps(largest, _mm512_load_ps(row.choice + i));
    }
    const int n = gather_candidates(row, r.experts, largest, r.k, candidates);
    if (n > 16) {
      select(row, candidates, n, r.k, ids);
      weigh(r, row, ids, weights);
      continue;
    }
    const __mmask16 real = static_cast<__mmask16>((1u << n) - 1);
    const __m512i found = _mm512_load_si512(candidates);
    const __m512 choice =
        _mm512_mask_i32gather_ps(_mm512_set1_ps(kNever), real, found, row.choice, 4);
    // Real lanes come first, so at equal choices they outrank the empty ones.
    const __mmask16 won =
        _mm512_cmplt_epi32_mask(rank16(choice), _mm512_set1_epi32(r.k)) & real;
    const __m512i chosen = _mm512_maskz_compress_epi32(won, found);
    const __m512 s = _mm512_mask_i32gather_ps(_mm512_setzero_ps(), wanted, chosen, row.s, 4);
    const float factor =
        r.renormalise ? r.scale / std::max(_mm512_reduce_add_ps(s), 1e-20f) : r.scale;
    _mm512_mask_storeu_epi32(ids, wanted, chosen);
    _mm512_mask_storeu_ps(weights, wanted, _mm512_mul_ps(s, _mm512_set1_ps(factor)));
  }
}

bool has_avx512() {
  static const bool has = __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return has;
}

#endif

void custom_kernel(tvm::ffi::TensorView logits, tvm::ffi::TensorView bias, int64_t k,
                   int64_t n_group, int64_t topk_group, double scale, bool renormalise,
                   tvm::ffi::TensorView weights, tvm::ffi::TensorView ids) {
  const int64_t tokens = logits.size(0), experts = logits.size(1);
  if (experts > kMaxExperts || k > kMaxChosen || n_group > kMaxGroups)
    TVM_FFI_THROW(ValueError) << "too many experts, groups or chosen experts for this kernel";
  const Router r{static_cast<int>(experts),    static_cast<int>(k),
                 static_cast<int>(n_group),    static_cast<int>(topk_group),
                 static_cast<float>(scale),    renormalise,
                 static_cast<const float*>(bias.data_ptr())};
  const auto* in = static_cast<const uint16_t*>(logits.data_ptr());
  auto* out_weights = static_cast<float*>(weights.data_ptr());
  auto* out_ids = static_cast<int32_t*>(ids.data_ptr());
#if WITH_AVX512
  if (has_avx512() && experts % 16 == 0 && k <= 16) {
    route_avx512(r, in, tokens, out_weights, out_ids);
    return;
  }
#endif
  route_portable(r, in, tokens, out_weights, out_ids);
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(custom_kernel, custom_kernel);
