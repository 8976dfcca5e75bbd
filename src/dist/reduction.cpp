#include "dist/reduction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <stdexcept>

namespace burnish::dist {

namespace {

/// Gradients that travel together: their numbers one after the other in fp32, then for each how many processes have it.
struct Bucket {
  size_t first = 0, last = 0;  ///< of the parameters
  int64_t numel = 0;
  size_t num_there = 0;  ///< gradients that are complete
  at::Tensor flat = {};
  PendingPtr pending = {};

  size_t count() const { return last - first; }
};

/// In the order in which backward makes them, so from the last parameter to the first.
std::vector<Bucket> make_buckets(const std::vector<at::Tensor>& parameters, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (size_t end = parameters.size(); end > 0;) {
    Bucket bucket{.first = end, .last = end};
    while (bucket.first > 0) {
      auto more = parameters[bucket.first - 1].numel();
      if (bucket.numel > 0 && 4 * (bucket.numel + more) > bucket_bytes) break;
      bucket.numel += more;
      --bucket.first;
    }
    end = bucket.first;
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

/// Where parameter i lies in its bucket.
std::vector<int64_t> offsets_of(const std::vector<at::Tensor>& parameters, const std::vector<Bucket>& buckets) {
  std::vector<int64_t> offsets(parameters.size());
  for (const auto& bucket : buckets) {
    int64_t offset = 0;
    for (size_t i = bucket.first; i < bucket.last; ++i) {
      offsets[i] = offset;
      offset += parameters[i].numel();
    }
  }
  return offsets;
}

/// The backend's sum, under way while backward still runs.
class Overlapped final : public Reduction {
 public:
  Overlapped(Group& group, std::vector<at::Tensor> parameters, const ReductionOptions& options)
      : group_(group),
        parameters_(std::move(parameters)),
        buckets_(make_buckets(parameters_, options.bucket_bytes)),
        offsets_(offsets_of(parameters_, buckets_)),
        bucket_of_(parameters_.size()) {
    for (size_t b = 0; b < buckets_.size(); ++b) {
      for (size_t i = buckets_[b].first; i < buckets_[b].last; ++i) bucket_of_[i] = b;
    }
  }
  ~Overlapped() override { unhook(); }

  void begin_last() override {
    for (size_t i = 0; i < parameters_.size(); ++i)
      torch::autograd::impl::set_post_acc_grad_hooks(parameters_[i], std::make_unique<Hook>(*this, i));
    is_hooked_ = true;
  }

  void finish() override {
    unhook();
    for (; next_ < buckets_.size(); ++next_) start(buckets_[next_]);
    for (auto& bucket : buckets_) end(bucket);
    next_ = 0;
    if (is_first_) expected_ = hits_;
    is_first_ = false;
    hits_.assign(hits_.size(), 0);
  }

 private:
  class Hook final : public torch::autograd::PostAccumulateGradHook {
   public:
    Hook(Overlapped& reduction, size_t index) : reduction_(reduction), index_(index) {}
    void operator()(const torch::autograd::Variable& /*parameter*/) override { reduction_.is_there(index_); }

   private:
    Overlapped& reduction_;
    size_t index_;
  };

  void unhook() {
    if (!is_hooked_) return;
    for (const auto& parameter : parameters_) torch::autograd::impl::set_post_acc_grad_hooks(parameter, nullptr);
    is_hooked_ = false;
  }

  /// Backward may add to a gradient more than once; how often is learned in the first step, in which nothing travels early.
  void is_there(size_t index) {
    auto& hits = hits_[index];
    if (++hits > expected_[index] && !is_first_)
      throw std::logic_error("backward adds to a gradient more often than in the first step, after it was summed over processes");
    if (is_first_ || hits < expected_[index]) return;
    ++buckets_[bucket_of_[index]].num_there;
    // All processes start buckets in one order.
    while (next_ < buckets_.size() && buckets_[next_].num_there == buckets_[next_].count()) start(buckets_[next_++]);
  }

  void start(Bucket& bucket) {
    at::NoGradGuard no_grad;
    auto count = static_cast<int64_t>(bucket.count());
    bucket.flat = at::zeros({bucket.numel + count}, at::kFloat);
    for (size_t i = bucket.first; i < bucket.last; ++i) {
      const auto& gradient = parameters_[i].grad();
      if (!gradient.defined()) continue;
      bucket.flat.narrow(0, offsets_[i], gradient.numel()).view(gradient.sizes()).copy_(gradient);
      bucket.flat.select(0, bucket.numel + static_cast<int64_t>(i - bucket.first)).fill_(1);
    }
    bucket.pending = group_.sum(bucket.flat);
  }

  void end(Bucket& bucket) {
    at::NoGradGuard no_grad;
    bucket.pending->wait();
    bucket.pending.reset();
    const auto* had = bucket.flat.const_data_ptr<float>() + bucket.numel;
    for (size_t i = bucket.first; i < bucket.last; ++i) {
      if (had[i - bucket.first] == 0) continue;
      auto& gradient = parameters_[i].mutable_grad();
      auto sum = bucket.flat.narrow(0, offsets_[i], parameters_[i].numel()).view(parameters_[i].sizes());
      if (gradient.defined()) gradient.copy_(sum);
      else gradient = sum.to(parameters_[i].options().requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
    }
    bucket.flat = at::Tensor();
    bucket.num_there = 0;
  }

  Group& group_;
  std::vector<at::Tensor> parameters_;
  std::vector<Bucket> buckets_;
  std::vector<int64_t> offsets_;
  std::vector<size_t> bucket_of_;
  size_t next_ = 0;                                                                          ///< of the buckets, which travels next
  std::vector<int64_t> hits_ = std::vector<int64_t>(parameters_.size()), expected_ = hits_;  ///< by parameter: in a step
  bool is_hooked_ = false, is_first_ = true;
};

/// What is added in pairs, like the digits of a binary counter: a balanced tree over leaves as they come.
class Tree {
 public:
  void add(at::Tensor leaf) {
    size_t level = 0;
    for (; level < levels_.size() && levels_[level].defined(); ++level) {
      leaf = levels_[level].add_(leaf);
      levels_[level] = at::Tensor();
    }
    if (level == levels_.size()) levels_.emplace_back();
    levels_[level] = std::move(leaf);
  }
  /// Of all leaves; the tree is empty again.
  at::Tensor take() {
    at::Tensor sum;
    for (auto& level : levels_) {
      if (level.defined()) sum = sum.defined() ? level.add_(sum) : level;
    }
    levels_.clear();
    return sum;
  }

 private:
  std::vector<at::Tensor> levels_;
};

/// One order for every number of processes: a tree over the batches of a process, one over processes, one over what they shared out.
class Ordered final : public Reduction {
 public:
  Ordered(Group& group, std::vector<at::Tensor> parameters) : group_(group), parameters_(std::move(parameters)) {
    for (const auto& parameter : parameters_) numel_ += parameter.numel();
  }

  void ran(bool ends_unit) override {
    at::NoGradGuard no_grad;
    of_process_.add(take_gradients());
    if (ends_unit) of_step_.add(over_processes(of_process_.take()));
  }

  void finish() override {
    at::NoGradGuard no_grad;
    auto sum = of_step_.take();
    int64_t offset = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const auto& parameter = parameters_[i];
      auto of_parameter = sum.narrow(0, offset, parameter.numel()).view(parameter.sizes());
      offset += parameter.numel();
      if (sum[numel_ + static_cast<int64_t>(i)].item<float>() == 0) continue;
      parameter.mutable_grad() = of_parameter.to(parameter.options().requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
    }
  }

 private:
  /// Of the last backward, with a flag for each that there is; they begin anew then.
  at::Tensor take_gradients() {
    auto flat = at::zeros({numel_ + std::ssize(parameters_)}, at::kFloat);
    int64_t offset = 0;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      auto& gradient = parameters_[i].mutable_grad();
      auto numel = parameters_[i].numel();
      if (gradient.defined()) {
        flat.narrow(0, offset, numel).view(gradient.sizes()).copy_(gradient);
        flat.select(0, numel_ + static_cast<int64_t>(i)).fill_(1);
      }
      gradient = at::Tensor();
      offset += numel;
    }
    return flat;
  }

  /// Each process sums a stretch of the numbers of all, in the order of their ranks.
  at::Tensor over_processes(const at::Tensor& mine) {
    auto size = group_.size();
    if (size == 1) return mine;
    auto stretch = (mine.numel() + size - 1) / size;
    auto padded = at::zeros({size, stretch}, at::kFloat);
    padded.view({-1}).narrow(0, 0, mine.numel()).copy_(mine);
    auto of_all = at::empty({size, stretch}, at::kFloat);
    group_.exchange(padded, of_all)->wait();
    Tree tree;
    for (int64_t rank = 0; rank < size; ++rank) tree.add(of_all[rank].clone());
    group_.gather(tree.take(), padded)->wait();
    return padded.view({-1}).narrow(0, 0, mine.numel()).clone();
  }

  Group& group_;
  std::vector<at::Tensor> parameters_;
  int64_t numel_ = 0;
  Tree of_process_, of_step_;
};

}  // namespace

std::unique_ptr<Reduction> make_reduction(Group& group, std::vector<at::Tensor> parameters, const ReductionOptions& options) {
  if (options.ordered) return std::make_unique<Ordered>(group, std::move(parameters));
  if (group.size() == 1) return nullptr;
  return std::make_unique<Overlapped>(group, std::move(parameters), options);
}

std::vector<double> sum_of(Group& group, const std::vector<double>& numbers) {
  auto values = at::empty({std::ssize(numbers)}, at::kDouble);
  std::copy(numbers.begin(), numbers.end(), values.mutable_data_ptr<double>());
  group.sum(values)->wait();
  const auto* sums = values.const_data_ptr<double>();
  return {sums, sums + numbers.size()};
}

}  // namespace burnish::dist
