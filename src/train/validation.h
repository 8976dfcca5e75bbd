#pragma once
#include <array>

namespace burnish::train {

/// Shares of the way from no noise to noise alone at which held-out samples are judged.
inline constexpr std::array kValidationShares{0.1, 0.25, 0.4, 0.55, 0.7, 0.85};

}  // namespace burnish::train
