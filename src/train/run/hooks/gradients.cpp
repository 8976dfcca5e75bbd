#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "train/run/hooks/hooks.h"
#include "train/run/without_gradient.h"

namespace burnish::train {

namespace {

/// "a, b, ...".
std::string some(std::vector<std::string> names) {
  constexpr size_t kNamed = 8;
  auto count = names.size();
  names.resize(std::min(count, kNamed));
  return join(names) + (count > kNamed ? ", ..." : "");
}

class NoGradient final : public Hook {
 public:
  explicit NoGradient(const Training& training) : training_(training) {}

  bool looks_at(int64_t /*step*/) override { return !looked_; }
  void stepped(StepReport& /*r*/) override {
    if (std::exchange(looked_, true)) return;
    const auto& optimizer = *training_.trainee.optimizer;
    const auto& parameters = optimizer.parameters();
    optim::ParameterList untouched;  // gradients may be gone by now
    std::vector<double> updated;
    for (size_t i = 0; i < parameters.size(); ++i) updated.push_back(optimizer.was_updated(i) ? 1 : 0);
    if (training_.trainee.ownership) updated = dist::sum_of(training_.world.group(), updated);
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (updated[i] == 0) untouched.push_back(parameters[i]);
    }
    if (!training_.world.is_first()) return;
    auto [expected, unexpected] = without_gradient(untouched, training_.subject.model->names());
    if (!expected.empty())
      info("{} of {} trained parameters are never reached by a gradient in this model: {}", expected.size(), parameters.size(),
           some(expected));
    if (!unexpected.empty())
      warn("{} of {} trained parameters got no gradient in the first step, so nothing changes them: {}", unexpected.size(),
           parameters.size(), some(unexpected));
  }

 private:
  const Training& training_;
  bool looked_ = false;
};

}  // namespace

std::unique_ptr<Hook> make_gradients(const Training& training) {
  bool has_part = training.world.is_first() || training.trainee.ownership;
  return has_part ? std::make_unique<NoGradient>(training) : nullptr;
}

}  // namespace burnish::train
