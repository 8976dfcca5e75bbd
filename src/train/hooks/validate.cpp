#include <ATen/core/grad_mode.h>
#include <fmt/core.h>

#include <nlohmann/json.hpp>

#include "io/files.h"
#include "train/hooks/hooks.h"

namespace burnish::train {

namespace {

class Validate final : public Hook {
 public:
  explicit Validate(const Training& training) : training_(training) {}

  void before() override { before_ = loss(); }
  void ended() override {
    double after = loss();
    io::write_text_atomic(training_.settings.output.folder / "validation.json",
                          nlohmann::json{{"before", before_}, {"after", after}}.dump(2) + "\n");
    fmt::print("validation loss: before {:.5f}, after {:.5f}\n", before_, after);
  }

 private:
  /// The mean over all held-out samples and their draws, not weighted.
  double loss() const {
    at::NoGradGuard no_grad;
    const auto& trainee = training_.trainee;
    optim::Averaged averaged(*trainee.optimizer, trainee.ema.get());
    double sum = 0;
    auto count = training_.course.num_held_out();
    for (int64_t i = 0; i < count; ++i) sum += losses_of(trainee, training_.batch({true, i})).mean().item<double>();
    return sum / static_cast<double>(count);
  }

  const Training& training_;
  double before_ = 0;
};

}  // namespace

std::unique_ptr<Hook> make_validate(const Training& training) {
  return training.course.num_held_out() > 0 ? std::make_unique<Validate>(training) : nullptr;
}

}  // namespace burnish::train
