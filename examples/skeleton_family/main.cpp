// burnish with one more family: every verb works for it.
#include "app/program.h"
#include "family.h"

int main(int argc, char** argv) {
  burnish::models::add_family(burnish::models::skeleton::kFamily);
  return burnish::app::run_program({argv + 1, argv + argc});
}
