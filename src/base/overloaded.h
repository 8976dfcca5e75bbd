#pragma once

namespace burnish {

/// One visitor out of a function for each alternative of a variant.
template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

}  // namespace burnish
