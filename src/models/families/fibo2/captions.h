#pragma once
#include <string>

// Prompts of FIBO 2, which was trained with structured captions: JSON on one line, without what says nothing.
namespace burnish::models::fibo2 {

/// Returns what the text encoder is given of a prompt. An object of JSON is put on one line, without empty values and without the scores
/// that training left out; one in which nothing is left becomes the empty caption, and so does an empty prompt. All else stays as it is.
std::string read_caption(const std::string& prompt);

/// Holds what the text encoder is given of a prompt beside pictures that are to be changed: one object of JSON.
struct EditText {
  std::string told;  ///< as far as the last picture goes, each of which is kPictureInText; "" for an empty prompt, which tells of none
  std::string rest;
};
/// Makes the text of an instruction, or of an object of JSON with an "edit_instruction" and further keys of a caption, beside so many
/// pictures. Throws a data Error for an object without an instruction, unless it is empty.
EditText read_edit(const std::string& prompt, size_t num_pictures);

}  // namespace burnish::models::fibo2
