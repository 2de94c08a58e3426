# expect: accepted
# needs: g++
"""C++ inside a Python file, by torch's load_inline. It takes long to build; a .cpp builds in seconds."""

from torch.utils.cpp_extension import load_inline

SOURCE = """
#include <torch/extension.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

void route(const torch::Tensor& logits, const torch::Tensor& bias, int64_t k, int64_t n_group,
           int64_t topk_group, double scale, bool renormalise, torch::Tensor weights,
           torch::Tensor ids) {
  const float never = -std::numeric_limits<float>::infinity();
  const int64_t tokens = logits.size(0), experts = logits.size(1), size = experts / n_group;
  const auto* x = logits.const_data_ptr<at::BFloat16>();
  const auto* b = bias.const_data_ptr<float>();
  auto* w = weights.data_ptr<float>();
  auto* out = ids.data_ptr<int32_t>();
  std::vector<float> s(experts), choice(experts), score(n_group);
  std::vector<int32_t> order(experts), groups(n_group);
  for (int64_t t = 0; t < tokens; ++t, x += experts, w += k, out += k) {
    for (int64_t i = 0; i < experts; ++i) {
      s[i] = 1.0f / (1.0f + std::exp(-static_cast<float>(x[i])));
      choice[i] = s[i] + b[i];
      if (!(choice[i] > never)) choice[i] = never;
    }
    if (n_group > 1) {
      for (int64_t g = 0; g < n_group; ++g) {
        float first = never, second = never;
        for (int64_t i = g * size; i < (g + 1) * size; ++i) {
          second = std::max(second, std::min(first, choice[i]));
          first = std::max(first, choice[i]);
        }
        score[g] = first + second;
      }
      std::iota(groups.begin(), groups.end(), 0);
      std::sort(groups.begin(), groups.end(), [&](int a, int c) { return score[a] > score[c]; });
      for (int64_t n = topk_group; n < n_group; ++n)
        std::fill_n(choice.begin() + groups[n] * size, size, never);
    }
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + k, order.end(),
                      [&](int a, int c) { return choice[a] > choice[c]; });
    float sum = 0.0f;
    for (int64_t j = 0; j < k; ++j) {
      out[j] = order[j];
      w[j] = choice[order[j]] > never ? s[order[j]] : 0.0f;
      sum += w[j];
    }
    const float factor = scale / (renormalise ? std::max(sum, 1e-20f) : 1.0f);
    for (int64_t j = 0; j < k; ++j) w[j] *= factor;
  }
}
"""

router = load_inline("topk_router", SOURCE, functions=["route"], extra_cflags=["-O3"])


def custom_kernel(data):
    router.route(*data)
    return data[-2:]
