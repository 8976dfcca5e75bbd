// Paging beside a link of any speed: how long a step takes whose blocks compute for a known time, while their weights come over a link of
// known bandwidth and latency. Prints a JSON object a case: seconds that blocks compute and that the link is busy, and that the step took.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <chrono>
#include <thread>

#include "memory/paging.h"
#include "memory/recompute.h"

using namespace burnish;

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int64_t kNumBlocks = 24, kNumel = 1 << 16;
constexpr double kLatency = 1e-4, kForward = 8e-3, kBackward = 2 * kForward;  // seconds; of a block

/// Copies at once, and says that they came when a link would have brought them.
class Link final : public memory::Lane {
 public:
  explicit Link(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  std::shared_ptr<Arrival> go(const Copies& copies) override {
    double num_bytes = 0;
    for (const auto& [to, from] : copies) {
      to.copy_(from);
      num_bytes += static_cast<double>(to.nbytes());
    }
    const Seconds takes(num_bytes / bytes_per_second_);
    busy += takes.count();
    free_ = std::max(free_, Clock::now()) + std::chrono::duration_cast<Clock::duration>(takes);
    return std::make_shared<At>(free_ + std::chrono::duration_cast<Clock::duration>(Seconds(kLatency)));
  }
  void synchronize() override { std::this_thread::sleep_until(free_); }

  double busy = 0;  ///< seconds

 private:
  struct At final : Arrival {
    explicit At(Clock::time_point time) : when(time) {}
    void wait() const override { std::this_thread::sleep_until(when); }
    Clock::time_point when;
  };

  double bytes_per_second_;
  Clock::time_point free_ = Clock::now();
};

void compute(double seconds) { std::this_thread::sleep_for(Seconds(seconds)); }

/// The identity, which takes its time in both directions and reads a weight.
struct Work : torch::autograd::Function<Work> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            std::function<void()>* trained) {
    ctx->saved_data["trained"] = reinterpret_cast<int64_t>(trained);
    compute(kForward);
    if (weight.storage().data() == nullptr) throw std::logic_error("a block without weights");
    return x.detach();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx, torch::autograd::variable_list grads) {
    compute(kBackward);
    (*reinterpret_cast<std::function<void()>*>(ctx->saved_data["trained"].toInt()))();
    return {grads[0], at::Tensor(), at::Tensor()};
  }
};

struct Layer : nn::Block {
  Layer() { own("weight", weight); }
  nn::Tensors body(const nn::Tensors& in) override { return {Work::apply(in[0], weight, &trained)}; }
  at::Tensor weight = at::randn({kNumel});
  std::function<void()> trained = [] {};
};

struct Case {
  bool trains, recomputes;
  double ratio;  ///< of the time in which a block's weights come to that in which it computes forward
  size_t num_places;
};

void measure(const Case& c) {
  auto link = std::make_shared<Link>(kNumel * 4 / (c.ratio * kForward));
  auto pager = std::make_shared<memory::Pager>(std::make_shared<memory::HostStore>(c10::Device(c10::kCPU), link), c10::Device(c10::kCPU),
                                               c.num_places);
  std::vector<std::unique_ptr<Layer>> blocks;
  for (int64_t i = 0; i < kNumBlocks; ++i) {
    auto& block = *blocks.emplace_back(std::make_unique<Layer>());
    pager->take(block);
    block.runner = pager->runner();
    if (c.trains) block.trained = [pager, i] { pager->mark_changed(static_cast<size_t>(i)); };
    if (c.recomputes) block.runner = memory::recompute(block.runner);
  }
  pager->make_places();
  auto step = [&] {
    auto y = at::ones({4}).requires_grad_(true);
    for (auto& block : blocks) y = block->run({y})[0];
    torch::autograd::backward({y.sum()}, {});
  };
  step();  // after which places are full, as they are between steps
  link->synchronize();
  link->busy = 0;
  const auto start = Clock::now();
  step();
  link->synchronize();
  const double took = Seconds(Clock::now() - start).count();
  const double computes = static_cast<double>(kNumBlocks) * (kForward * (c.recomputes ? 2 : 1) + kBackward);
  fmt::print(R"({{"trains": {}, "recomputes": {}, "ratio": {}, "places": {}, "compute": {:.4f}, "link": {:.4f}, "step": {:.4f}}})"
             "\n",
             c.trains, c.recomputes, c.ratio, c.num_places, computes, link->busy, took);
}

}  // namespace

int main() {
  for (const bool trains : {false, true}) {
    for (const bool recomputes : {false, true}) {
      for (const double ratio : {0.25, 0.5, 1.0, 2.0, 4.0}) {
        for (const size_t num_places : {1, 2, 4}) measure({trains, recomputes, ratio, num_places});
      }
    }
  }
}
