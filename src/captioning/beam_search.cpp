#include "captioning/beam_search.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>

#include <algorithm>
#include <limits>

namespace burnish::captioning {

namespace {

/// A text that is gone on with: its tokens from the start on, and the sum of their log-probabilities.
struct Beam {
  std::vector<int64_t> ids;
  double sum = 0;
};
struct Finished {
  std::vector<int64_t> ids;
  double score = 0;  ///< mean log-probability
  bool is_cut = false;
};
/// The search for a text about one input.
struct Search {
  size_t input = 0;
  std::vector<Beam> beams;
  std::vector<Finished> finished = {};
};

constexpr float kNever = -std::numeric_limits<float>::infinity();

/// Takes away tokens that would bring a row of `size` tokens which the text has already (Paulus et al. 2017, arXiv 1705.04304).
void forbid_repeats(const std::vector<int64_t>& ids, int64_t size, float* log_probability_V) {
  const auto behind = size - 1;
  if (size < 1 || std::ssize(ids) < size) return;
  for (auto row = ids.begin(); row + behind < ids.end(); ++row) {
    if (std::equal(row, row + behind, ids.end() - behind)) log_probability_V[*(row + behind)] = kNever;
  }
}

void force(int64_t token, float* log_probability_V, int64_t size) {
  std::fill_n(log_probability_V, size, kNever);
  log_probability_V[token] = 0;
}

/// Searches for texts about several inputs, a token at a time.
class Searches {
 public:
  Searches(const at::Tensor& states_BLE, const BeamRule& rule) : rule_(rule) {
    for (int64_t i = 0; i < states_BLE.size(0); ++i) searches_.push_back({static_cast<size_t>(i), {{{rule.start}}}});
    found_.resize(searches_.size());
  }
  bool is_done() const { return searches_.empty(); }
  std::vector<FoundText>& found() { return found_; }
  int64_t num_beams() const { return std::ssize(searches_.front().beams); }
  std::vector<int64_t> last_tokens() const {
    std::vector<int64_t> tokens;
    for (const auto& search : searches_) {
      for (const auto& beam : search.beams) tokens.push_back(beam.ids.back());
    }
    return tokens;
  }

  /// Chooses the next tokens by scores [R, V] on the CPU, and has the past follow.
  void choose(const at::Tensor& scores_RV, BartPast& past) {
    const auto before = num_beams(), vocabulary = scores_RV.size(1);
    auto log_probability_RV = at::log_softmax(scores_RV, 1).contiguous();
    auto* numbers = log_probability_RV.mutable_data_ptr<float>();
    for (size_t i = 0, row = 0; i < searches_.size(); ++i) {
      for (const auto& beam : searches_[i].beams) rule_out(beam, numbers + static_cast<int64_t>(row++) * vocabulary, vocabulary);
    }
    std::vector<int64_t> texts, inputs;
    std::vector<Search> further;
    for (size_t i = 0; i < searches_.size(); ++i) {
      const auto first = static_cast<int64_t>(i) * before;
      const auto kept = advance(searches_[i], log_probability_RV.narrow(0, first, before));
      if (kept.empty()) {
        end(searches_[i]);
        continue;
      }
      for (auto beam : kept) texts.push_back(first + beam);
      inputs.push_back(static_cast<int64_t>(i));
      further.push_back(std::move(searches_[i]));
    }
    searches_ = std::move(further);
    past.keep(texts, inputs);
  }

 private:
  void rule_out(const Beam& beam, float* log_probability_V, int64_t vocabulary) const {
    const auto written = std::ssize(beam.ids) - 1;
    forbid_repeats(beam.ids, rule_.no_repeat, log_probability_V);
    if (written == 0) force(rule_.first, log_probability_V, vocabulary);
    if (written == rule_.max_new_tokens - 1) force(rule_.end, log_probability_V, vocabulary);
  }

  /// Takes the best continuations of a search. Those among the best `num_beams` that have an end are finished; the best of others are gone
  /// on with. Returns of which beam each of these is; none where the search has an end.
  std::vector<int64_t> advance(Search& search, const at::Tensor& log_probability_NV) const {
    const auto vocabulary = log_probability_NV.size(1);
    std::vector<float> sums;
    for (const auto& beam : search.beams) sums.push_back(static_cast<float>(beam.sum));
    const auto all = (log_probability_NV + at::tensor(sums).unsqueeze(1)).flatten();
    const auto [best, places] = all.topk(std::min(2 * rule_.num_beams, all.size(0)));
    std::vector<Beam> next;
    std::vector<int64_t> kept;
    const auto is_last = std::ssize(search.beams.front().ids) == rule_.max_new_tokens;
    for (int64_t i = 0; i < best.size(0); ++i) {
      const auto sum = best.const_data_ptr<float>()[i];
      const auto place = places.const_data_ptr<int64_t>()[i];
      if (sum == kNever) break;
      auto ids = search.beams[static_cast<size_t>(place / vocabulary)].ids;
      ids.push_back(place % vocabulary);
      if (ids.back() == rule_.end || is_last) {
        if (i < rule_.num_beams) finish(search, ids, sum, is_last);
      } else if (std::ssize(next) < rule_.num_beams) {
        next.push_back({std::move(ids), sum});
        kept.push_back(place / vocabulary);
      }
    }
    if (is_last || std::ssize(search.finished) >= rule_.num_beams) return {};
    search.beams = std::move(next);
    return kept;
  }

  static void finish(Search& search, const std::vector<int64_t>& ids, float sum, bool is_cut) {
    search.finished.push_back({ids, sum / static_cast<float>(ids.size() - 1), is_cut});
  }

  void end(const Search& search) {
    const auto best = std::ranges::max_element(search.finished, {}, &Finished::score);
    if (best == search.finished.end()) return;
    auto& text = found_[search.input];
    text.is_cut = best->is_cut;
    for (size_t i = 1; i < best->ids.size(); ++i) {
      const auto id = best->ids[i];
      if (id != rule_.end && !(i == 1 && id == rule_.first)) text.ids.push_back(id);
    }
  }

  const BeamRule& rule_;
  std::vector<Search> searches_;
  std::vector<FoundText> found_;
};

}  // namespace

std::optional<std::vector<FoundText>> beam_search(Bart& bart, const at::Tensor& states_BLE, const BeamRule& rule,
                                                  const std::function<bool()>& goes_on) {
  at::NoGradGuard no_grad;
  Searches searches(states_BLE, rule);
  auto past = bart.begin(states_BLE);
  while (!searches.is_done()) {
    if (goes_on && !goes_on()) return std::nullopt;
    const auto ids_R = at::tensor(searches.last_tokens()).to(states_BLE.device());
    searches.choose(bart.scores(ids_R, past).cpu(), past);
  }
  return std::move(searches.found());
}

}  // namespace burnish::captioning
