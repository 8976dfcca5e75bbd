#pragma once
#include <ATen/core/Tensor.h>

#include <string>

namespace burnish::models {

/// The component that a unit runs which reads words' states: it stands for their vectors where what trains is told by components.
inline const std::string kWords = "words";

/// A word of prompts that a text encoder knows beside its vocabulary, by vectors that training found (textual inversion: Gal et al. 2022,
/// arXiv 2208.01618). It reads the word as as many tokens as there are vectors.
struct Word {
  std::string text;
  at::Tensor vectors_NE;      ///< fp32: the tokens' rows, behind those of the token table
  at::Tensor states_NE = {};  ///< fp32: what stands in the place of the states that the encoder makes of the tokens; undefined: they do
};

}  // namespace burnish::models
