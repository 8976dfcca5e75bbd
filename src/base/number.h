#pragma once
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/text.h"

namespace burnish {

/// The number that the whole text is, with or without a plus sign before it; none where it is anything else, is followed by anything, or
/// does not fit. In every locale the same. Infinite ones and NaN are numbers here: for who then says that they will not do.
template <class Number>
requires std::integral<Number> || std::floating_point<Number> std::optional<Number> parse_any_number(std::string_view text) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  Number number = 0;
  const auto* end = text.data() + text.size();
  const auto [read, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && read == end ? std::optional(number) : std::nullopt;
}

/// The finite number that the whole text is, likewise.
template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  auto number = parse_any_number<Number>(text);
  if constexpr (std::floating_point<Number>) {
    if (number && !std::isfinite(*number)) return std::nullopt;
  }
  return number;
}

/// The number that the text begins with, which is taken off it; none, and the text as it was, where it begins with anything else.
template <class Number>
std::optional<Number> take_number(std::string_view& text) {
  Number number = 0;
  const auto [read, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(read - text.data()));
  return number;
}

/// The numbers of a comma list; none where one of its parts is no number.
template <class Number>
std::optional<std::vector<Number>> parse_numbers(std::string_view list) {
  std::vector<Number> numbers;
  for (const auto& part : split_list(list)) {
    const auto number = parse_number<Number>(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

}  // namespace burnish
