#include "captioning/choose_token.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/argmax.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include <algorithm>

namespace burnish::captioning {

at::Tensor penalised(const at::Tensor& scores_BV, const at::Tensor& is_written_BV, double penalty) {
  if (penalty == 1) return scores_BV;
  return at::where(is_written_BV, at::where(scores_BV < 0, scores_BV * penalty, scores_BV / penalty), scores_BV);
}

/// Of one text, whose scores [V] are on the CPU. Tokens stand in the order of their probability, so that those that may be drawn are the
/// first ones; the likeliest always may.
static int64_t draw(const at::Tensor& scores_V, const TokenRule& rule, CounterRandom& random) {
  const auto most = rule.top_k > 0 ? std::min(rule.top_k, scores_V.size(0)) : scores_V.size(0);
  const auto [sorted, order] = (scores_V.to(at::kDouble) / rule.temperature).topk(most);
  const auto probability_V = at::softmax(sorted, 0);
  const auto* probability = probability_V.const_data_ptr<double>();
  double together = 0;
  int64_t count = 0;
  while (count < most && (count == 0 || together < rule.top_p)) together += probability[count++];
  double place = random.uniform() * together;
  int64_t chosen = 0;
  while (chosen + 1 < count && place >= probability[chosen]) place -= probability[chosen++];
  return order.const_data_ptr<int64_t>()[chosen];
}

std::vector<int64_t> choose_tokens(const at::Tensor& scores_BV, const TokenRule& rule, std::vector<CounterRandom>& random) {
  std::vector<int64_t> chosen;
  if (rule.temperature == 0) {
    const auto best_B = scores_BV.argmax(1).cpu();
    chosen.assign(best_B.const_data_ptr<int64_t>(), best_B.const_data_ptr<int64_t>() + best_B.numel());
    return chosen;
  }
  const auto on_cpu = scores_BV.cpu();
  for (int64_t i = 0; i < on_cpu.size(0); ++i) chosen.push_back(draw(on_cpu[i], rule, random.at(static_cast<size_t>(i))));
  return chosen;
}

}  // namespace burnish::captioning
