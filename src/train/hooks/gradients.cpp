#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "train/hooks/hooks.h"

namespace burnish::train {

namespace {

class NoGradient final : public Hook {
 public:
  explicit NoGradient(const Training& training) : training_(training) {}

  void stepped(StepReport& /*r*/) override {
    if (std::exchange(looked_, true)) return;
    std::vector<std::string> without;
    for (const auto& parameter : training_.trainee.optimizer->parameters()) {
      if (!parameter.value.grad().defined()) without.push_back(parameter.name);
    }
    if (without.empty()) return;
    constexpr size_t kNamed = 8;
    auto count = without.size();
    without.resize(std::min(count, kNamed));
    warn("{} of {} trained parameters got no gradient in the first step, so nothing changes them: {}{}", count,
         training_.trainee.optimizer->parameters().size(), join(without), count > kNamed ? ", ..." : "");
  }

 private:
  const Training& training_;
  bool looked_ = false;
};

}  // namespace

std::unique_ptr<Hook> make_gradients(const Training& training) { return std::make_unique<NoGradient>(training); }

}  // namespace burnish::train
