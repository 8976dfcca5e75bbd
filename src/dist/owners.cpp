#include "dist/owners.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace burnish::dist {

namespace {

/// The bytes of a tensor in the order in which they lie in memory.
at::Tensor bytes_of(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) throw std::logic_error("a tensor with holes cannot be shared among processes");
  return tensor.detach().as_strided({tensor.numel()}, {1}).view(at::kByte);
}

/// The tensors of one owner as one row of bytes, gone through from its beginning.
class OwnedBytes {
 public:
  void add(const Owned& owned) {
    tensors_.push_back(&owned);
    num_bytes_ += owned.num_bytes;
  }
  int64_t num_bytes() const { return num_bytes_; }

  /// The next bytes of the row, as far as there are any, into `piece` or out of it.
  void pass(const at::Tensor& piece, bool into_piece) {
    for (int64_t at = 0; at < piece.numel() && next_ < tensors_.size();) {
      const auto& [owner, tensor, num_bytes] = *tensors_[next_];
      auto count = std::min(piece.numel() - at, num_bytes - passed_);
      bool has_numbers = tensor.defined() && !tensor.is_meta();
      if (has_numbers && count > 0) {
        auto here = bytes_of(tensor).narrow(0, passed_, count), there = piece.narrow(0, at, count);
        if (into_piece) there.copy_(here);
        else here.copy_(there);
      }
      at += count;
      passed_ += count;
      if (passed_ == num_bytes) ++next_, passed_ = 0;
    }
  }

 private:
  std::vector<const Owned*> tensors_;
  int64_t num_bytes_ = 0, passed_ = 0;
  size_t next_ = 0;
};

}  // namespace

std::vector<int64_t> owners_of(const std::vector<int64_t>& numels, int64_t num_processes) {
  auto all = std::max<int64_t>(1, std::accumulate(numels.begin(), numels.end(), int64_t{0}));
  std::vector<int64_t> owners;
  int64_t before = 0;
  for (auto numel : numels) {  // by where the middle of a tensor lies
    owners.push_back(std::min(num_processes - 1, (before + numel / 2) / ((all + num_processes - 1) / num_processes)));
    before += numel;
  }
  return owners;
}

void share(Group& group, const std::vector<Owned>& tensors, int64_t piece_bytes) {
  at::NoGradGuard no_grad;
  std::vector<OwnedBytes> rows(static_cast<size_t>(group.size()));
  for (const auto& owned : tensors) rows[static_cast<size_t>(owned.owner)].add(owned);
  int64_t longest = 0;
  for (const auto& row : rows) longest = std::max(longest, row.num_bytes());
  auto piece = std::min(piece_bytes, longest);
  for (int64_t begin = 0; begin < longest; begin += piece) {
    auto bytes = at::TensorOptions(at::kByte).device(group.device());
    auto all = at::empty({group.size(), piece}, bytes), mine = at::empty({piece}, bytes);
    rows[static_cast<size_t>(group.rank())].pass(mine, /*into_piece=*/true);
    group.gather(mine, all)->wait();
    for (int64_t rank = 0; rank < group.size(); ++rank) {
      if (rank != group.rank()) rows[static_cast<size_t>(rank)].pass(all[rank], /*into_piece=*/false);
    }
  }
}

}  // namespace burnish::dist
