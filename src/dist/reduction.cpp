#include "dist/reduction.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <utility>

#include "dist/additions.h"

namespace burnish::dist {

namespace {

/// Counts the numbers that `pack` makes of parameters.
int64_t packed_numel(Parameters parameters) {
  auto numel = std::ssize(parameters);
  for (const auto& parameter : parameters) numel += parameter.numel();
  return numel;
}

/// The gradients of parameters one after the other in fp32, then for each whether it is there, into zeros.
void pack(Parameters parameters, const at::Tensor& flat) {
  int64_t offset = 0, number = packed_numel(parameters) - std::ssize(parameters);
  for (const auto& parameter : parameters) {
    if (const auto& gradient = parameter.grad(); gradient.defined()) {
      if (!gradient.is_meta() || flat.is_meta()) flat.narrow(0, offset, gradient.numel()).view(gradient.sizes()).copy_(gradient);
      flat.select(0, number).fill_(1);
    }
    offset += parameter.numel();
    ++number;
  }
}

/// The fate of gradients that are there when sums come.
enum class There { replaced, added };

/// Makes gradients of sums of what `pack` gave; what no process had stays as it is.
void unpack(const at::Tensor& flat, Parameters parameters, There there) {
  int64_t offset = 0;
  const auto number = packed_numel(parameters) - std::ssize(parameters);
  const auto there_anywhere = flat.is_meta() ? flat : flat.narrow(0, number, std::ssize(parameters)).cpu();
  const auto* had = flat.is_meta() ? nullptr : there_anywhere.const_data_ptr<float>();
  for (const auto& parameter : parameters) {
    auto sum = flat.narrow(0, offset, parameter.numel()).view(parameter.sizes());
    offset += parameter.numel();
    if (had != nullptr && *had++ == 0) continue;
    auto& gradient = parameter.mutable_grad();
    if (gradient.defined() && there == There::added) gradient.add_(sum);
    else if (gradient.defined()) gradient.copy_(sum);
    else gradient = sum.to(parameter.options().requires_grad(false), /*non_blocking=*/false, /*copy=*/true);
  }
}

void drop_gradients(Parameters parameters) {
  for (const auto& parameter : parameters) parameter.mutable_grad() = at::Tensor();
}

/// Watches whether what a process has in a step is finite before it meets what others have.
class Own {
 public:
  /// Ends the step: all that comes from here on is of the next one.
  void end_step() { has_ended_ = true; }
  void had(const at::Tensor& flat) {
    if (has_ended_) *this = Own();
    if (flat.is_meta()) return;
    auto fine = are_finite(flat);
    if (is_mixed_.defined()) fine = fine.logical_or(is_mixed_);
    is_finite_ = is_finite_.defined() ? is_finite_.logical_and(fine) : fine;
  }
  /// Takes in what others had, which is part of what comes next.
  void got(const at::Tensor& flat) {
    if (flat.is_meta()) return;
    auto mixed = are_finite(flat).logical_not();
    if (is_finite_.defined()) mixed = mixed.logical_and(is_finite_);
    is_mixed_ = is_mixed_.defined() ? is_mixed_.logical_or(mixed) : mixed;
  }
  bool is_finite() const { return !is_finite_.defined() || is_finite_.item<bool>(); }

 private:
  /// One sum tells of any NaN or infinity.
  static at::Tensor are_finite(const at::Tensor& flat) { return flat.sum().isfinite(); }

  at::Tensor is_finite_, is_mixed_;  ///< on the device, which nobody waits for until it is asked; undefined: yes, no
  bool has_ended_ = false;
};

/// Gradients that travel together.
struct Bucket {
  size_t first = 0, last = 0;  ///< of the parameters
  int64_t owner = -1;          ///< of their gradients; -1: all
  size_t num_there = 0;        ///< gradients that are complete
  bool is_late = false;        ///< whether there came more after it had begun to travel
  at::Tensor flat = {};
  PendingPtr pending = {};

  size_t count() const { return last - first; }
};

/// Makes buckets in the order in which backward makes gradients, from the last parameter to the first.
std::vector<Bucket> make_buckets(const std::vector<at::Tensor>& parameters, const ReductionOptions& options) {
  auto owner_of = [&](size_t parameter) { return options.owners.empty() ? -1 : options.owners[parameter]; };
  std::vector<Bucket> buckets;
  for (size_t begin = 0; begin < parameters.size();) {
    Bucket bucket{.first = begin, .last = begin, .owner = owner_of(begin)};
    const auto limit = bucket_limit(options.bucket_bytes, buckets.size());
    for (int64_t numel = 0; bucket.last < parameters.size() && owner_of(bucket.last) == bucket.owner; ++bucket.last) {
      auto more = parameters[bucket.last].numel();
      if (numel > 0 && 4 * (numel + more) > limit) break;
      numel += more;
    }
    begin = bucket.last;
    buckets.push_back(std::move(bucket));
  }
  std::ranges::reverse(buckets);
  return buckets;
}

/// The backend's sum, under way while backward still runs: the last of a step, or every one where gradients have owners, which then begin
/// the next with the sums so far.
class Overlapped final : public Reduction {
 public:
  Overlapped(Group& group, std::vector<at::Tensor> parameters, const ReductionOptions& options)
      : group_(group),
        parameters_(std::move(parameters)),
        column_(options.column),
        buckets_(make_buckets(parameters_, options)),
        bucket_of_(parameters_.size()),
        additions_(parameters_, [this](size_t parameter, const Hits& hits) { is_there(parameter, hits); }) {
    for (size_t b = 0; b < buckets_.size(); ++b) {
      for (size_t i = buckets_[b].first; i < buckets_[b].last; ++i) bucket_of_[i] = b;
    }
  }

  void begin(bool is_last, int64_t kind) override {
    is_last_ = is_last;
    if (!is_last && !has_owners()) return;
    additions_.start(kind);
    for (size_t i = 0; i < parameters_.size(); ++i) buckets_[bucket_of_[i]].num_there += additions_.is_reached(i) ? 0 : 1;
  }
  void ran(bool /*ends_unit*/) override {
    if (has_owners()) end_round();
  }
  void finish() override {
    if (!has_owners()) end_round();
    own_.end_step();
  }
  bool was_finite() const override { return own_.is_finite(); }

 private:
  static constexpr size_t kUnderWay = 4;

  bool has_owners() const { return !buckets_.empty() && buckets_.front().owner >= 0; }

  /// In the first round nothing travels early, or, where gradients are to be freed, what comes late travels once more.
  void is_there(size_t index, const Hits& hits) {
    auto& bucket = buckets_[bucket_of_[index]];
    const bool is_first = additions_.is_first_round();
    if (is_first && !has_owners()) return;
    if (hits.now > hits.expected && !is_first)
      throw std::logic_error("backward adds to a gradient more often than in the first step, after it was summed over processes");
    if (hits.now > hits.expected) bucket.is_late = true;
    if (hits.now != hits.expected) return;
    ++bucket.num_there;
    // All processes start buckets in one order.
    while (next_ < buckets_.size() && buckets_[next_].num_there == buckets_[next_].count()) start_next();
  }

  void end_round() {
    additions_.stop();
    while (next_ < buckets_.size()) start_next();
    while (ended_ < next_) end(buckets_[ended_++]);
    if (additions_.is_first_round() && has_owners()) send_late();
    if (is_last_ && column_ != nullptr) sum_over_column();
    for (auto& bucket : buckets_) bucket = {.first = bucket.first, .last = bucket.last, .owner = bucket.owner};
    next_ = ended_ = 0;
    additions_.end_round();
  }

  void send_late() {
    std::vector<double> late;
    for (const auto& bucket : buckets_) late.push_back(bucket.is_late ? 1 : 0);
    late = sum_of(group_, late);
    if (column_ != nullptr) late = sum_of(*column_, late);
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (late[i] == 0) continue;
      start(buckets_[i]);
      end(buckets_[i]);
    }
  }

  /// Once a step: until then owners have the sums of their own row.
  void sum_over_column() {
    at::NoGradGuard no_grad;
    for (const auto& bucket : buckets_) {
      if (bucket.owner != group_.rank()) continue;
      auto parameters = parameters_of(bucket);
      auto flat = at::zeros({packed_numel(parameters)}, at::TensorOptions(at::kFloat).device(group_.device()));
      pack(parameters, flat);
      column_->sum(flat)->wait();
      unpack(flat, parameters, There::replaced);
    }
  }

  Parameters parameters_of(const Bucket& bucket) const { return Parameters(parameters_).subspan(bucket.first, bucket.count()); }

  /// Not many are under way at once: each is a copy of its gradients.
  void start_next() {
    if (next_ - ended_ == kUnderWay) end(buckets_[ended_++]);
    start(buckets_[next_++]);
  }

  void start(Bucket& bucket) {
    at::NoGradGuard no_grad;
    auto parameters = parameters_of(bucket);
    bucket.flat = at::zeros({packed_numel(parameters)}, at::TensorOptions(at::kFloat).device(group_.device()));
    pack(parameters, bucket.flat);
    own_.had(bucket.flat);
    if (has_owners()) drop_gradients(parameters);
    bucket.pending = has_owners() ? group_.sum_at(bucket.flat, bucket.owner) : group_.sum(bucket.flat);
  }

  void end(Bucket& bucket) {
    at::NoGradGuard no_grad;
    bucket.pending->wait();
    const bool is_mine = bucket.owner == group_.rank();
    if (is_mine) own_.got(bucket.flat);
    if (!has_owners()) unpack(bucket.flat, parameters_of(bucket), There::replaced);
    else if (is_mine) unpack(bucket.flat, parameters_of(bucket), There::added);
    bucket.flat = at::Tensor();
    bucket.pending.reset();
  }

  Group& group_;
  std::vector<at::Tensor> parameters_;
  Group* column_;
  std::vector<Bucket> buckets_;
  std::vector<size_t> bucket_of_;
  size_t next_ = 0, ended_ = 0;  ///< of the buckets, which travels next, and how many have arrived
  bool is_last_ = false;
  Own own_;
  Additions additions_;
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
  /// Returns the sum of all leaves; the tree is empty again.
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

/// One order for every number of processes: a tree over the batches of a process, one over processes, one over what they shared out. Each
/// process sums a row of what all have: what it owns, or an even part.
class Ordered final : public Reduction {
 public:
  Ordered(Group& group, std::vector<at::Tensor> parameters, const ReductionOptions& options)
      : group_(group),
        parameters_(std::move(parameters)),
        places_(options.places),
        column_(options.column),
        has_owners_(!options.owners.empty()) {
    const auto& owners = options.owners;
    auto size = group.size();
    if (!has_owners_) row_numel_ = (packed_numel(parameters_) + size - 1) / size;
    rows_.resize(has_owners_ ? static_cast<size_t>(size) : 0);
    for (size_t i = 0; i < owners.size(); ++i) rows_[static_cast<size_t>(owners[i])].push_back(parameters_[i]);
    for (const auto& row : rows_) row_numel_ = std::max(row_numel_, packed_numel(row));
  }

  void ran(bool ends_unit) override {
    at::NoGradGuard no_grad;
    auto all = packed();
    own_.had(all);
    if (places_ != nullptr) {  // the first of them goes on with what is of all
      places_->sum_at(all, 0)->wait();
      if (places_->rank() > 0) all.zero_();
    }
    of_process_.add(std::move(all));
    drop_gradients(parameters_);
    if (ends_unit) of_step_.add(over_processes(of_process_.take()));
  }

  void finish() override {
    at::NoGradGuard no_grad;
    auto sum = of_step_.take().view({-1});
    unpack(sum, has_owners_ ? rows_[static_cast<size_t>(group_.rank())] : parameters_, There::replaced);
    own_.end_step();
  }
  bool was_finite() const override { return own_.is_finite(); }

 private:
  /// [processes, numbers of a row].
  at::Tensor packed() const {
    auto all = at::zeros({group_.size(), row_numel_}, at::TensorOptions(at::kFloat).device(group_.device()));
    if (!has_owners_) pack(parameters_, all.view({-1}));
    for (size_t rank = 0; rank < rows_.size(); ++rank) pack(rows_[rank], all[static_cast<int64_t>(rank)]);
    return all;
  }

  /// The sum of this process's row, or of all where gradients have no owners.
  at::Tensor over_processes(const at::Tensor& mine) {
    if (group_.size() == 1 && column_ == nullptr) return mine;
    auto of_all = at::empty_like(mine);
    group_.exchange(mine, of_all)->wait();
    auto sum = sum_of_rows(of_all);
    if (column_ != nullptr) {
      auto of_column = at::empty({column_->size(), row_numel_}, sum.options());
      column_->gather(sum, of_column)->wait();
      sum = sum_of_rows(of_column);
    }
    if (has_owners_) return sum;
    group_.gather(sum, of_all)->wait();
    return of_all;
  }

  static at::Tensor sum_of_rows(const at::Tensor& rows) {
    Tree tree;
    for (int64_t row = 0; row < rows.size(0); ++row) tree.add(rows[row].clone());
    return tree.take();
  }

  Group& group_;
  std::vector<at::Tensor> parameters_;
  std::shared_ptr<Group> places_;
  Group* column_;
  bool has_owners_;
  std::vector<std::vector<at::Tensor>> rows_;  ///< by owner
  int64_t row_numel_ = 0;
  Tree of_process_, of_step_;
  Own own_;
};

}  // namespace

std::unique_ptr<Reduction> make_reduction(Group& group, std::vector<at::Tensor> parameters, const ReductionOptions& options) {
  if (options.ordered) return std::make_unique<Ordered>(group, std::move(parameters), options);
  if (group.size() == 1 && options.column == nullptr) return nullptr;
  return std::make_unique<Overlapped>(group, std::move(parameters), options);
}

int64_t bucket_limit(int64_t bucket_bytes, size_t number_from_end) {
  constexpr size_t kDoublings = 4;
  return bucket_bytes >> (kDoublings - std::min(number_from_end, kDoublings));
}

std::vector<double> sum_of(Group& group, const std::vector<double>& numbers) {
  auto values = at::empty({std::ssize(numbers)}, at::kDouble);
  std::copy(numbers.begin(), numbers.end(), values.mutable_data_ptr<double>());
  group.sum(values)->wait();
  const auto* sums = values.const_data_ptr<double>();
  return {sums, sums + numbers.size()};
}

}  // namespace burnish::dist
