// What the runtime says at exit.
#pragma once

#include <string>

#include "interpose/runtime_state.h"
#include "recorder/report_model.h"

namespace swapadvisor {

std::string program_name();
ReportModel report_model(RuntimeState& state, ManagedContext& managed);
/// Writes the reports of all contexts that did something worth reporting, those kept before included.
void write_reports(RuntimeState& state);
/// Once the traces are closed: what could not be written and, where no launcher will, what was.
void tell_outputs(RuntimeState& state);
/// A context that goes before the process ends.
void keep_report(RuntimeState& state, ManagedContext& managed);

}  // namespace swapadvisor
