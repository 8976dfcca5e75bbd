#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "train/hooks/hooks.h"
#include "train/without_gradient.h"

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

  void stepped(StepReport& /*r*/) override {
    if (std::exchange(looked_, true)) return;
    const auto& optimizer = *training_.trainee.optimizer;
    const auto& parameters = optimizer.parameters();
    optim::ParameterList untouched;  // gradients may be gone by now
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (!optimizer.was_updated(i)) untouched.push_back(parameters[i]);
    }
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

std::unique_ptr<Hook> make_gradients(const Training& training) { return std::make_unique<NoGradient>(training); }

}  // namespace burnish::train
