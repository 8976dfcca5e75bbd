#pragma once
#include <functional>
#include <string>

namespace burnish::app {

/// Tells whether somebody sits at a terminal who can be asked.
bool can_ask();

/// Shows a question on the terminal and reads a line, until `take` takes it: what is wrong with an answer, an Error of `take`, is told, and
/// the question comes again. An empty answer means `otherwise`, which the question shows; "" where there is none. Throws the Error of an
/// interruption after Ctrl-C, and at the end of what is typed (Ctrl-D).
void ask(const std::string& question, const std::string& otherwise, const std::function<void(const std::string& answer)>& take);

/// Asks for yes or no; an empty answer is no.
bool ask_whether(const std::string& question);

/// Returns a name as it is meant that was typed, or dragged into the terminal: without quotes around it, and with the home folder for a
/// leading ~.
std::string typed_name(const std::string& answer);

}  // namespace burnish::app
