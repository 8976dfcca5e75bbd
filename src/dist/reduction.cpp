#include "dist/reduction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <iterator>
#include <span>
#include <stdexcept>

namespace burnish::dist {

namespace {

/// The gradients of parameters one after the other in fp32, then for each whether it is there.
at::Tensor pack(std::span<const at::Tensor> parameters) {
  int64_t numel = 0;
  for (const auto& parameter : parameters) numel += parameter.numel();
  auto flat = at::zeros({numel + std::ssize(parameters)}, at::kFloat);
  int64_t offset = 0, number = numel;
  for (const auto& parameter : parameters) {
    if (const auto& gradient = parameter.grad(); gradient.defined()) {
      flat.narrow(0, offset, gradient.numel()).view(gradient.sizes()).copy_(gradient);
      flat.select(0, number).fill_(1);
    }
    offset += parameter.numel();
    ++number;
  }
  return flat;
}

/// Puts sums of what `pack` gave in the place of the gradients; what no process had stays as it is.
void unpack(const at::Tensor& flat, std::span<const at::Tensor> parameters) {
  int64_t offset = 0;
  const auto* had = flat.const_data_ptr<float>() + flat.numel() - std::ssize(parameters);
  for (const auto& parameter : parameters) {
    auto sum = flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    offset += parameter.numel();
    if (*had++ == 0) continue;
    auto& gradient = parameter.mutable_grad();
    if (gradient.defined()) gradient.copy_(sum);
    else gradient = sum.to(parameter.options().requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
  }
}

/// Gradients that travel together.
struct Bucket {
  size_t first = 0, last = 0;  ///< of the parameters
  size_t num_there = 0;        ///< gradients that are complete
  at::Tensor flat = {};
  PendingPtr pending = {};

  size_t count() const { return last - first; }
};

/// In the order in which backward makes them, so from the last parameter to the first.
std::vector<Bucket> make_buckets(const std::vector<at::Tensor>& parameters, int64_t bucket_bytes) {
  std::vector<Bucket> buckets;
  for (size_t end = parameters.size(); end > 0;) {
    Bucket bucket{.first = end, .last = end};
    for (int64_t numel = 0; bucket.first > 0; --bucket.first) {
      auto more = parameters[bucket.first - 1].numel();
      if (numel > 0 && 4 * (numel + more) > bucket_bytes) break;
      numel += more;
    }
    end = bucket.first;
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

/// The backend's sum, under way while backward still runs.
class Overlapped final : public Reduction {
 public:
  Overlapped(Group& group, std::vector<at::Tensor> parameters, const ReductionOptions& options)
      : group_(group),
        parameters_(std::move(parameters)),
        buckets_(make_buckets(parameters_, options.bucket_bytes)),
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

  std::span<const at::Tensor> parameters_of(const Bucket& bucket) const {
    return std::span(parameters_).subspan(bucket.first, bucket.count());
  }

  void start(Bucket& bucket) {
    at::NoGradGuard no_grad;
    bucket.flat = pack(parameters_of(bucket));
    bucket.pending = group_.sum(bucket.flat);
  }

  void end(Bucket& bucket) {
    at::NoGradGuard no_grad;
    bucket.pending->wait();
    unpack(bucket.flat, parameters_of(bucket));
    bucket = {.first = bucket.first, .last = bucket.last};
  }

  Group& group_;
  std::vector<at::Tensor> parameters_;
  std::vector<Bucket> buckets_;
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
  Ordered(Group& group, std::vector<at::Tensor> parameters) : group_(group), parameters_(std::move(parameters)) {}

  void ran(bool ends_unit) override {
    at::NoGradGuard no_grad;
    of_process_.add(pack(parameters_));
    for (const auto& parameter : parameters_) parameter.mutable_grad() = at::Tensor();
    if (ends_unit) of_step_.add(over_processes(of_process_.take()));
  }

  void finish() override {
    at::NoGradGuard no_grad;
    unpack(of_step_.take(), parameters_);
  }

 private:
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
