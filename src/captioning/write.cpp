#include "captioning/write.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <map>

#include "base/text.h"

namespace burnish::captioning {

namespace text = models::text;

namespace {

/// Pictures that are read together: their tokens are equal, and so are their sides.
using Group = std::vector<size_t>;
std::vector<Group> groups_of(const std::vector<Request>& requests) {
  std::map<std::vector<int64_t>, Group> groups;
  for (size_t i = 0; i < requests.size(); ++i) {
    auto key = requests[i].text.ids;
    for (const auto& picture : requests[i].text.pictures) key.insert(key.end(), {picture.rows(), picture.time.value_or(-1)});
    groups[key].push_back(i);
  }
  std::vector<Group> list;
  for (auto& [key, group] : groups) list.push_back(std::move(group));
  return list;
}

/// The texts of a batch while they are written.
struct Batch {
  text::KeyValues past{0};
  at::Tensor scores_BV, is_written_BV;
  std::vector<int64_t> places;  ///< of the next token of each
  std::vector<size_t> order;    ///< which request each is
};

Batch read(LanguageModel& model, const std::vector<Request>& requests, int64_t max_new_tokens) {
  Batch batch;
  std::vector<text::KeyValues> pasts;
  std::vector<at::Tensor> scores, written;
  int64_t longest = 0;
  for (const auto& group : groups_of(requests)) {
    std::vector<models::PictureText> together;
    for (auto i : group) together.push_back(requests[i].text);
    const auto length = std::ssize(together[0].ids);
    longest = std::max(longest, length);
    scores.push_back(model.read(together, pasts.emplace_back(length)));
    auto is_written = at::zeros_like(scores.back(), at::kBool);
    written.push_back(is_written.index_fill_(1, at::tensor(together[0].ids).to(is_written.device()), true));
    batch.order.insert(batch.order.end(), group.begin(), group.end());
    batch.places.resize(batch.order.size(), LanguageModel::next_place(together[0]));
  }
  batch.past = text::KeyValues::joined(pasts, longest + max_new_tokens);
  batch.scores_BV = at::cat(scores);
  batch.is_written_BV = at::cat(written);
  return batch;
}

}  // namespace

std::optional<std::vector<Written>> write(LanguageModel& model, const std::vector<Request>& requests, const WritingRule& rule,
                                          const std::function<bool()>& goes_on) {
  at::NoGradGuard no_grad;
  auto batch = read(model, requests, rule.max_new_tokens);
  std::vector<CounterRandom> random;
  for (auto i : batch.order) random.emplace_back(RandomKey{rule.seed, 0, requests[i].name, Purpose::caption}.value());
  std::vector<Written> written(requests.size(), Written{.ids = {}, .text = {}, .is_cut = true});
  for (int64_t step = 0; step < rule.max_new_tokens; ++step) {
    if (goes_on && !goes_on()) return std::nullopt;
    const auto chosen = choose_tokens(penalised(batch.scores_BV, batch.is_written_BV, rule.tokens.repetition_penalty), rule.tokens, random);
    for (size_t row = 0; row < chosen.size(); ++row) {
      auto& one = written[batch.order[row]];
      if (!one.is_cut) continue;
      if (std::ranges::find(model.stops(), chosen[row]) != model.stops().end()) one.is_cut = false;
      else one.ids.push_back(chosen[row]);
    }
    if (step + 1 == rule.max_new_tokens || std::ranges::none_of(written, &Written::is_cut)) break;
    batch.is_written_BV.scatter_(1, at::tensor(chosen).unsqueeze(1).to(batch.is_written_BV.device()), true);
    batch.scores_BV = model.read_next(chosen, batch.places, batch.past);
    for (auto& place : batch.places) ++place;
  }
  for (auto& one : written) one.text = trim(model.tokenizer().decode(one.ids));
  return written;
}

}  // namespace burnish::captioning
