#!/usr/bin/env python3
"""Writes what the runtime derives from the toolkit's headers.

usage: generate_tables.py CUDA_HOME OUTPUT_FOLDER

error_table.h: every cudaError of driver_types.h with its name and a text; the usual errors have texts of their own, for
the rest the text is the name in words. newest_abi.h: the newest prototype of each driver entry point, to check against
what cuda.h declares."""
import re
import sys
from pathlib import Path

TEXTS = {
    "cudaSuccess": "no error",
    "cudaErrorInvalidValue": "invalid argument",
    "cudaErrorMemoryAllocation": "out of memory",
    "cudaErrorInitializationError": "initialization error",
    "cudaErrorCudartUnloading": "driver shutting down",
    "cudaErrorInvalidConfiguration": "invalid configuration argument",
    "cudaErrorInvalidPitchValue": "invalid pitch argument",
    "cudaErrorInvalidSymbol": "invalid device symbol",
    "cudaErrorInvalidMemcpyDirection": "invalid copy direction for memcpy",
    "cudaErrorStubLibrary": "CUDA driver is a stub library",
    "cudaErrorInsufficientDriver": "CUDA driver version is insufficient for CUDA runtime version",
    "cudaErrorMissingConfiguration": "__global__ function call is not configured",
    "cudaErrorInvalidDeviceFunction": "invalid device function",
    "cudaErrorNoDevice": "no CUDA-capable device is detected",
    "cudaErrorInvalidDevice": "invalid device ordinal",
    "cudaErrorInvalidKernelImage": "device kernel image is invalid",
    "cudaErrorDeviceUninitialized": "invalid device context",
    "cudaErrorNoKernelImageForDevice": "no kernel image is available for execution on the device",
    "cudaErrorUnsupportedLimit": "limit is not supported on this architecture",
    "cudaErrorPeerAccessUnsupported": "peer access is not supported between these two devices",
    "cudaErrorInvalidPtx": "a PTX JIT compilation failed",
    "cudaErrorUnsupportedPtxVersion": "the provided PTX was compiled with an unsupported toolchain.",
    "cudaErrorInvalidSource": "device kernel image is invalid",
    "cudaErrorFileNotFound": "file not found",
    "cudaErrorOperatingSystem": "OS call failed or operation not supported on this OS",
    "cudaErrorInvalidResourceHandle": "invalid resource handle",
    "cudaErrorIllegalState": "the operation cannot be performed in the present state",
    "cudaErrorSymbolNotFound": "named symbol not found",
    "cudaErrorNotReady": "device not ready",
    "cudaErrorIllegalAddress": "an illegal memory access was encountered",
    "cudaErrorLaunchOutOfResources": "too many resources requested for launch",
    "cudaErrorLaunchTimeout": "the launch timed out and was terminated",
    "cudaErrorPeerAccessAlreadyEnabled": "peer access is already enabled",
    "cudaErrorPeerAccessNotEnabled": "peer access has not been enabled",
    "cudaErrorSetOnActiveProcess": "cannot set while device is active in this process",
    "cudaErrorContextIsDestroyed": "context is destroyed",
    "cudaErrorAssert": "device-side assert triggered",
    "cudaErrorHostMemoryAlreadyRegistered": "part or all of the requested memory range is already mapped",
    "cudaErrorHostMemoryNotRegistered": "pointer does not correspond to a registered memory region",
    "cudaErrorIllegalInstruction": "an illegal instruction was encountered",
    "cudaErrorMisalignedAddress": "misaligned address",
    "cudaErrorInvalidAddressSpace": "operation not supported on global/shared address space",
    "cudaErrorInvalidPc": "invalid program counter",
    "cudaErrorLaunchFailure": "unspecified launch failure",
    "cudaErrorCooperativeLaunchTooLarge": "too many blocks in cooperative launch",
    "cudaErrorNotPermitted": "operation not permitted",
    "cudaErrorNotSupported": "operation not supported",
    "cudaErrorStreamCaptureUnsupported": "operation not permitted when stream is capturing",
    "cudaErrorStreamCaptureInvalidated": "operation failed due to a previous error during capture",
    "cudaErrorStreamCaptureMerge": "operation would result in a merge of separate capture sequences",
    "cudaErrorStreamCaptureUnmatched": "capture was not ended in the same stream as it began",
    "cudaErrorStreamCaptureUnjoined": "capturing stream has unjoined work",
    "cudaErrorStreamCaptureIsolation": "dependency created on uncaptured work in another stream",
    "cudaErrorStreamCaptureImplicit": "operation would make the legacy stream depend on a capturing blocking stream",
    "cudaErrorCapturedEvent": "operation not permitted on an event last recorded in a capturing stream",
    "cudaErrorStreamCaptureWrongThread": "attempt to terminate a thread-local capture sequence from another thread",
    "cudaErrorGraphExecUpdateFailure": "the graph update was not performed because it included changes which violated "
                                       "constraints specific to instantiated graph update",
    "cudaErrorUnknown": "unknown error",
}


def words(name):
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name.removeprefix("cudaError")).lower()


def error_table(include):
    header = (include / "driver_types.h").read_text()
    body = re.search(r"enum __device_builtin__ cudaError\s*\{(.*?)\n\};", header, re.S)[1]
    names = re.findall(r"^\s*(cuda\w+)\s*=\s*\d+", body, re.M)
    lines = [f'    {{{n}, "{n}", "{TEXTS.get(n, words(n))}"}},' for n in names if n != "cudaErrorApiFailureBase"]
    return ("#include <cuda_runtime_api.h>\n\nnamespace cudart {\n"
            "struct ErrorText {\n    cudaError_t error;\n    const char* name;\n    const char* text;\n};\n"
            "inline constexpr ErrorText kErrorTexts[] = {\n" + "\n".join(lines) + "\n};\n}  // namespace cudart\n")


def newest_abi(include):
    newest = {}
    for header in ("cudaTypedefs.h", "cudaProfilerTypedefs.h"):
        public = (include / header).read_text().split("#if defined(__CUDA_API_VERSION_INTERNAL)")[0]
        for name, version in re.findall(r"PFN_(cu\w+?)_v(\d+)\)", public):
            newest[name] = max(newest.get(name, 0), int(version))
    lines = [f"using newest_{name} = PFN_{name}_v{version};" for name, version in sorted(newest.items())]
    return "#include <cudaProfilerTypedefs.h>\n#include <cudaTypedefs.h>\n\n" + "\n".join(lines) + "\n"


def main():
    include, folder = Path(sys.argv[1]) / "include", Path(sys.argv[2])
    for name, text in (("error_table.h", error_table(include)), ("newest_abi.h", newest_abi(include))):
        (folder / name).write_text("// Generated by generate_tables.py.\n#pragma once\n\n" + text)


main()
