#include <fmt/core.h>

#include <deque>
#include <numeric>

#include "base/count.h"
#include "base/progress.h"
#include "train/run/hooks/hooks.h"

namespace burnish::train {

namespace {

class Bar final : public Hook {
 public:
  explicit Bar(const Training& training) : training_(training) {}

  void before() override { bar_.emplace("train", training_.course.num_steps(), training_.trainee.progress.step); }
  void stepped(StepReport& r) override {
    // A step's loss says little: it depends more on the time that was drawn than on what was learned.
    // Weights of the loss go by that time as well, so it is shown without them.
    const auto loss = r.raw_loss.value_or(r.loss);
    losses_.push_back(loss);
    if (std::ssize(losses_) > kAveraged) losses_.pop_front();
    auto mean = std::accumulate(losses_.begin(), losses_.end(), 0.0) / static_cast<double>(losses_.size());
    bar_->update(r.step, fmt::format("loss {:.4f}, mean of {} {:.4f}  {:.2f} samples/s", loss, count_of(std::ssize(losses_), "step"), mean,
                                     static_cast<double>(r.num_samples) / r.seconds));
  }
  void ended() override { bar_.reset(); }

 private:
  static constexpr int64_t kAveraged = 100;
  const Training& training_;
  std::optional<Progress> bar_;
  std::deque<double> losses_;
};

}  // namespace

std::unique_ptr<Hook> make_bar(const Training& training) { return std::make_unique<Bar>(training); }

}  // namespace burnish::train
