// The frame of every hook of an op: residency before the real call, the outcome after it.
#pragma once

#include "interpose/driver.h"

namespace swapadvisor {

/// `begin(runtime)` makes the OpToken, `call()` is the real call.
template <class Begin, class Call>
inline CUresult run_op(Entry entry, Begin begin, Call call) {
    Runtime* runtime = runtime_for(entry);
    if (!runtime) return call();
    OpToken token = begin(*runtime);
    if (token.fail) return *token.fail;
    const CUresult result = call();
    runtime->end_op(token, result);
    return result;
}

/// A copy that the host waits for.
template <class Call>
inline CUresult run_copy(Entry entry, const CopySpan& to, const CopySpan& from, Call call) {
    return run_op(
        entry, [&](Runtime& runtime) { return runtime.begin_copy(to, from, nullptr, entry.stream, true); },
        call);
}
/// A copy that is put into a stream.
template <class Call>
inline CUresult run_copy_async(Entry entry, const CopySpan& to, const CopySpan& from, CUstream stream,
                               Call call) {
    return run_op(
        entry, [&](Runtime& runtime) { return runtime.begin_copy(to, from, stream, entry.stream, false); },
        call);
}

/// After something was put into the stream that the program itself lets go on.
inline CUresult gated(Entry entry, CUstream stream, CUresult result) {
    if (result == CUDA_SUCCESS) {
        if (Runtime* runtime = runtime_for(entry)) runtime->stream_gated(stream, entry.stream);
    }
    return result;
}

/// For calls that the runtime either answers (`answer(runtime)` has a value) or leaves to the driver.
template <class Answer, class Call>
inline CUresult answer_or_forward(Entry entry, Answer answer, Call call) {
    if (Runtime* runtime = runtime_for(entry)) {
        if (const std::optional<CUresult> answered = answer(*runtime)) return *answered;
    }
    return call();
}

}  // namespace swapadvisor
