#include <fmt/core.h>

#include "base/progress.h"
#include "train/hooks/hooks.h"

namespace burnish::train {

namespace {

class Bar final : public Hook {
 public:
  explicit Bar(const Training& training) : training_(training) {}

  void before() override { bar_.emplace("train", training_.course.num_steps(), training_.trainee.progress.step); }
  void stepped(StepReport& r) override {
    bar_->update(r.step, fmt::format("loss {:.4f}  {:.2f} samples/s", r.loss, static_cast<double>(r.num_samples) / r.seconds));
  }
  void ended() override { bar_.reset(); }

 private:
  const Training& training_;
  std::optional<Progress> bar_;
};

}  // namespace

std::unique_ptr<Hook> make_bar(const Training& training) { return std::make_unique<Bar>(training); }

}  // namespace burnish::train
