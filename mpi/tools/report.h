// mpi/tools/report.h: what a command of `pomona` says of a failure: a line for people, and for
// programs, which asked for --json, an object where its report would stand.
// Idea: each complaint goes to standard error at once and is remembered; a command that prints its
// report says so. main() then knows whether {"error": ...} is still owed.
#pragma once

#include <string>
#include <string_view>

namespace pomona {

// "pomona COMMAND: text" on standard error.
void complain(std::string_view command, std::string_view text);
// Of what was told already, by others.
void remember_complaint(std::string_view text);
// A report in JSON, on standard output.
void print_report(std::string_view json);
// A part of one, or all of it, was printed otherwise.
void note_report();
// What a command that failed prints at its end; "" where its report stands.
std::string owed_report();

}  // namespace pomona
