#include "app/program.h"

int main(int argc, char** argv) { return burnish::app::run_program({argv + 1, argv + argc}); }
