#include <algorithm>
#include <deque>
#include <numeric>

#include "base/log.h"
#include "train/objectives/dpo.h"
#include "train/run/hooks/hooks.h"

namespace burnish::train {

namespace {

/// Of the weight of gradients that preferences begin with, ½, a tenth; its mean over so many steps has to be less.
constexpr double kLeastWeight = 0.05;
constexpr int64_t kSteps = 50;

class Saturation final : public Hook {
 public:
  void stepped(StepReport& r) override {
    auto weight = r.logged.find(kGradientWeight);
    if (told_ || weight == r.logged.end()) return;
    weights_.push_back(weight->second);
    if (std::ssize(weights_) > kSteps) weights_.pop_front();
    auto mean = std::accumulate(weights_.begin(), weights_.end(), 0.0) / static_cast<double>(weights_.size());
    if (std::ssize(weights_) < kSteps || mean >= kLeastWeight) return;
    told_ = true;
    auto margin = r.logged.find("margin");
    warn(
        "step {}: the margin of preferred over rejected pictures ({:.3g}) is beyond what beta_dpo tells apart: gradients had {:.3g} of "
        "their full weight in the mean of {} steps, and 0.5 when training began. Little is learned from here on; an earlier save may draw "
        "better. A lower learning_rate or beta_dpo goes less far",
        r.step, margin == r.logged.end() ? 0.0 : margin->second, mean, kSteps);
  }

 private:
  std::deque<double> weights_;
  bool told_ = false;
};

}  // namespace

std::unique_ptr<Hook> make_saturation(const Training& training) {
  auto logged = training.objective.logged();
  return std::ranges::find(logged, kGradientWeight) != logged.end() ? std::make_unique<Saturation>() : nullptr;
}

}  // namespace burnish::train
