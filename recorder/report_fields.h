// The figures of a report, once: their names in JSON, their labels for people, their units.
#pragma once

#include "recorder/report_model.h"

namespace swapadvisor {

enum class ReportUnit { bytes, ns, count };

struct ReportField {
    const char* name;   ///< JSON
    const char* label;  ///< text and HTML
    ReportUnit unit;
    std::int64_t ReportModel::*member;
};

inline constexpr ReportField kMemoryFields[] = {
    {"limit_bytes", "limit", ReportUnit::bytes, &ReportModel::limit_bytes},
    {"peak_bytes", "peak of the program", ReportUnit::bytes, &ReportModel::peak_bytes},
    {"peak_resident_bytes", "peak on the device", ReportUnit::bytes, &ReportModel::peak_resident_bytes},
    {"pinned_bytes", "pinned host memory", ReportUnit::bytes, &ReportModel::pinned_bytes},
};

inline constexpr ReportField kTimeFields[] = {
    {"infinite_ns_per_iteration", "with infinite memory", ReportUnit::ns,
     &ReportModel::infinite_ns_per_iteration},
    {"lower_bound_ns", "lower bound at the limit", ReportUnit::ns, &ReportModel::lower_bound_ns},
    {"predicted_ns", "predicted by the plan", ReportUnit::ns, &ReportModel::predicted_ns},
    {"measured_ns_per_iteration", "measured", ReportUnit::ns, &ReportModel::measured_ns_per_iteration},
    {"host_ns_per_iteration", "by the host's clock", ReportUnit::ns, &ReportModel::host_ns_per_iteration},
    {"stall_ns_per_iteration", "stalled on copies", ReportUnit::ns, &ReportModel::stall_ns_per_iteration},
};

inline constexpr ReportField kSwapFields[] = {
    {"in_bytes_per_iteration", "in, per iteration", ReportUnit::bytes, &ReportModel::in_bytes_per_iteration},
    {"out_bytes_per_iteration", "out, per iteration", ReportUnit::bytes,
     &ReportModel::out_bytes_per_iteration},
    {"in_bytes_total", "in, whole run", ReportUnit::bytes, &ReportModel::in_bytes_total},
    {"out_bytes_total", "out, whole run", ReportUnit::bytes, &ReportModel::out_bytes_total},
    {"clean_drops", "clean drops", ReportUnit::count, &ReportModel::clean_drops},
};

inline constexpr ReportField kRunFields[] = {
    {"iterations", "iterations seen", ReportUnit::count, &ReportModel::iterations},
    {"planned_iterations", "iterations that followed a plan", ReportUnit::count,
     &ReportModel::planned_iterations},
    {"plan_began_op", "ops before the first that followed a plan", ReportUnit::count,
     &ReportModel::plan_began_op},
    {"ops_per_iteration", "ops per iteration", ReportUnit::count, &ReportModel::ops_per_iteration},
    {"divergences", "divergences from the plan", ReportUnit::count, &ReportModel::divergences},
    {"strict_faults", "uses that recording had missed", ReportUnit::count, &ReportModel::strict_faults},
    {"remaps", "remaps in steady state", ReportUnit::count, &ReportModel::remaps},
};

inline constexpr ReportField kOtherFields[] = {
    {"pid", "process", ReportUnit::count, &ReportModel::pid},
    {"rank", "rank", ReportUnit::count, &ReportModel::rank},
    {"peak_op", "op at the peak", ReportUnit::count, &ReportModel::peak_op},
    {"least_limit_bytes", "least memory to run in", ReportUnit::bytes, &ReportModel::least_limit_bytes},
    {"enough_bytes", "enough for 95 % of the speed", ReportUnit::bytes, &ReportModel::enough_bytes},
};

/// visit(const ReportField&) for every figure.
template <class Visit>
void for_each_field(Visit&& visit) {
    for (const ReportField& f : kOtherFields) visit(f);
    for (const ReportField& f : kRunFields) visit(f);
    for (const ReportField& f : kMemoryFields) visit(f);
    for (const ReportField& f : kTimeFields) visit(f);
    for (const ReportField& f : kSwapFields) visit(f);
}

}  // namespace swapadvisor
