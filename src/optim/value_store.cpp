#include "optim/value_store.h"

#include <ATen/ops/zeros.h>

#include <stdexcept>

namespace burnish::optim {

namespace {

class TensorStore : public ValueStore {
 public:
  TensorStore(const at::Tensor& value, Rounding rounding) : value_(value.detach()), rounding_(rounding) {
    if (value.scalar_type() != at::kBFloat16) rounding_ = Rounding::nearest;
    if (rounding_ == Rounding::remainder) remainder_ = at::zeros(value.sizes(), value_.options().dtype(at::kShort));
  }

  /// A tensor that is not contiguous cannot be sliced in place.
  int64_t granule() const override { return value_.is_contiguous() ? 1 : value_.numel(); }

  void read(int64_t begin, const at::Tensor& exact) const override {
    auto value = slice(value_, begin, exact);
    if (remainder_.defined()) join_remainder(value, slice(remainder_, begin, exact), exact.view(value.sizes()));
    else exact.view(value.sizes()).copy_(value);
  }

  void write(int64_t begin, at::Tensor exact, std::optional<uint64_t> key) override {
    auto value = slice(value_, begin, exact);
    exact = exact.view(value.sizes());
    if (remainder_.defined()) split_remainder(exact, value, slice(remainder_, begin, exact));
    else if (key && rounding_ == Rounding::stochastic) round_stochastically(exact, value, *key);
    else value.copy_(exact);
  }

  at::Tensor tensor() const override { return remainder_.defined() ? at::Tensor() : value_; }

  StateList state() const override {
    StateList list{{"", value_}};
    if (remainder_.defined()) list.emplace_back(".remainder", remainder_);
    return list;
  }

  StateList weights() const override { return {{"", value_}}; }

 private:
  at::Tensor slice(const at::Tensor& from, int64_t begin, const at::Tensor& exact) const {
    return value_.is_contiguous() ? from.view({-1}).narrow(0, begin, exact.numel()) : from;
  }

  at::Tensor value_, remainder_;
  Rounding rounding_;
};

class Elsewhere final : public ValueStore {
 public:
  void read(int64_t /*begin*/, const at::Tensor& /*exact*/) const override { refuse(); }
  void write(int64_t /*begin*/, at::Tensor /*exact*/, std::optional<uint64_t> /*key*/) override { refuse(); }
  StateList state() const override { return {}; }

 private:
  [[noreturn]] static void refuse() { throw std::logic_error("a value that another process keeps was asked for"); }
};

}  // namespace

std::shared_ptr<ValueStore> store_in(const at::Tensor& value, Rounding rounding) { return std::make_shared<TensorStore>(value, rounding); }

std::shared_ptr<ValueStore> kept_elsewhere() { return std::make_shared<Elsewhere>(); }

}  // namespace burnish::optim
