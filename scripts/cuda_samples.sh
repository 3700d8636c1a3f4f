#!/bin/bash
# Builds NVIDIA's cuda-samples unmodified with nvcc -cudart shared, runs them on the software GPU and prints a table.
# usage: scripts/cuda_samples.sh CHECKOUT [-b BUILD] [-w WORK] [-j JOBS] [-t SECONDS] [NAME...]
# Left out: samples that need graphics, textures or arrays, or an NVIDIA library besides the runtime and NVRTC.
set -u
usage() { sed -n '2,4s/^# //p' "$0"; exit 2; }
[ $# -ge 1 ] || usage
case $1 in -*) usage ;; esac
SAMPLES=$(realpath "$1"); shift
[ -d "$SAMPLES/Samples" ] || { echo "error: $SAMPLES is no cuda-samples checkout (it has no folder Samples)"; exit 2; }
ROOT=$(cd "$(dirname "$0")/.." && pwd)
BUILD=$ROOT/build WORK='' JOBS=$(nproc) LIMIT=300
while getopts b:w:j:t: option; do
  case $option in
    b) BUILD=$(realpath "$OPTARG") ;; w) WORK=$OPTARG ;; j) JOBS=$OPTARG ;; t) LIMIT=$OPTARG ;; *) usage ;;
  esac
done
shift $((OPTIND - 1))
WORK=${WORK:-$BUILD/cuda-samples}
mkdir -p "$WORK/result"; WORK=$(realpath "$WORK")
NVCC=${CUDA_HOME:-/usr/local/cuda}/bin/nvcc
[ -x "$NVCC" ] || NVCC=$(command -v nvcc) || { echo "error: nvcc not found: set CUDA_HOME"; exit 2; }
export SAMPLES ROOT BUILD WORK LIMIT NVCC

excluded_by() {  # the reason to leave a sample out, or nothing
  local files; files=$(find "$1" -maxdepth 1 \( -name '*.cu' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.h' -o -name '*.c' \))
  [ -n "$files" ] || { echo "no sources"; return; }
  # shellcheck disable=SC2086
  if grep -qE '(#include *[<"](GL/|EGL|vulkan|d3d|helper_gl)|cudaEGL|_gl_interop)' $files; then echo graphics
  elif grep -qE '#include *[<"](cublas|cufft|curand|cusolver|cusparse|npp|nvJPEG|nvjpeg|helper_nvJPEG|nvJitLink|nvsci|nvvm|mpi\.h|FreeImage)' $files; then echo library
  elif grep -qE '(cudaTextureObject_t|cudaMallocArray|cudaMalloc3DArray|cuArrayCreate|cuTexRef|cudaArray_t|cudaArray \*|surf[123]Dwrite)' $files; then echo textures
  fi
}
export -f excluded_by

# What the samples' own test driver passes: args of test_args.json, one line per run.
arguments() {
  python3 - "$SAMPLES/test_args.json" "$1" <<'PY'
import json, shlex, sys
try:
    entry = json.load(open(sys.argv[1])).get(sys.argv[2], {})
except (OSError, ValueError):
    entry = {}
runs = entry.get("runs", [{"args": entry.get("args", [])}])
for run in runs:
    print(" ".join(shlex.quote(a) for a in run.get("args", [])))
PY
}
export -f arguments

one() {
  local source=$1 name folder arch flags libs reason='' status=fail rc
  name=$(basename "$source"); folder=$WORK/$name
  rm -rf "$folder"; mkdir -p "$folder"; cp -rs "$source/." "$folder/"
  cd "$folder" || return
  arch=$(sed -n 's/^ *set(CMAKE_CUDA_ARCHITECTURES *"\?\([0-9]*\).*/\1/p' CMakeLists.txt | sort -n | head -1)
  [ "${arch:-0}" -ge 75 ] || arch=75
  grep -qE 'major < 8' ./*.cu ./*.cpp 2>/dev/null && arch=80  # refuses to run on less
  flags="-O2 -std=c++17 --extended-lambda -cudart shared -arch=sm_$arch -I$SAMPLES/Common -I. -Wno-deprecated-gpu-targets -diag-suppress 20012,177,550"
  libs="-L$(dirname "$NVCC")/../lib64 -L$(dirname "$NVCC")/../lib64/stubs -Xlinker --as-needed -lcuda -lnvrtc -lpthread -ldl"
  grep -qi openmp CMakeLists.txt && flags="$flags -Xcompiler -fopenmp"
  # Headers that its CMake file puts beside programs that compile at run time.
  if grep -q CUDA_INCLUDE_DIR CMakeLists.txt; then
    local include; include=$(dirname "$NVCC")/../include
    ln -sf "$include/cooperative_groups.h" "$include/cooperative_groups" .
    for part in nv cuda; do [ -d "$include/cccl/$part" ] && ln -sfn "$include/cccl/$part" $part; done
  fi
  local devices=1; [[ $name =~ P2P|p2p|MultiGPU|MultiDevice ]] && devices=2
  # Device images that the program loads by name.
  local images; images=$(sed -n 's/.*set(CUDA_\(FATBIN\|PTX\)_FILE.*}\/\([^"]*\)".*/\1 \2/p' CMakeLists.txt)
  local kernels; kernels=$(sed -n 's/.*set(CUDA_KERNEL_SOURCE.*}\/\([^"]*\)".*/\1/p' CMakeLists.txt)
  local kind file
  while read -r kind file; do
    [ -n "$kind" ] || continue
    if [ "$kind" = PTX ]; then $NVCC -ptx -arch=compute_$arch -I"$SAMPLES/Common" -o "$file" $kernels
    else $NVCC -fatbin -arch=sm_$arch -I"$SAMPLES/Common" -o "$file" $kernels; fi >>build.log 2>&1
  done <<<"$images"
  # Its own list of sources.
  local sources; sources=$(tr '\n' ' ' <CMakeLists.txt | grep -oE "add_executable\([^)]*\)" | head -1 | sed 's/add_executable( *[^ ]*//; s/)//')
  sources=$(for s in $sources; do s=${s/#..\/..\/..\/Common/$SAMPLES\/Common}; [ -f "$s" ] && echo "$s"; done)
  if $NVCC $flags $sources -o "$name" $libs >>build.log 2>&1 ||
     $NVCC -rdc=true $flags $sources -o "$name" $libs -lcudadevrt >>build.log 2>&1; then
    status=pass
    local line
    while read -r line; do
      local args; eval "args=($line)"
      timeout -k 5 "$LIMIT" "$ROOT/scripts/softgpu" --build "$BUILD" --cc "${arch%?}.${arch: -1}" --devices $devices --nvrtc-ptx -- \
        "./$name" "${args[@]}" >run.log 2>&1 </dev/null
      rc=$?
      if [ $rc = 2 ] && grep -qiE 'waiv|skipping' run.log; then status=waived
      elif [ $rc = 124 ] || [ $rc = 137 ]; then status=timeout
      elif [ $rc != 0 ]; then status=fail
      elif grep -qE '^softgpu: (cannot load|illegal access)' run.log; then status=fail  # though it didn't look
      elif grep -qE 'Result = FAIL|[Tt]est [Ff]ailed|TEST FAILED|\.\.\. *FAILED|failed!$' run.log; then status=fail
      fi
      [ $status = pass ] && continue
      reason=$(grep -m1 -E '^softgpu: ' run.log || grep -m1 -iE 'error|fail|not support|waiv|requires' run.log || tail -1 run.log)
      [ $rc -ge 128 ] && reason="signal $((rc - 128)): $reason"
      break
    done < <(arguments "$name")
  else
    status=build; reason=$(grep -m1 -E 'error|undefined' build.log)
  fi
  printf '%s\t%s\t%s\n' "$status" "$name" "$(tr -d '\t\r' <<<"${reason:0:200}")" | tee "$WORK/result/$name"
}
export -f one

list=()
for source in "$SAMPLES"/Samples/[0-6]*/*/; do
  source=${source%/}; name=$(basename "$source")
  if [ $# -gt 0 ]; then
    for wanted in "$@"; do [ "$wanted" = "$name" ] && list+=("$source"); done
  elif reason=$(excluded_by "$source"); [ -z "$reason" ]; then list+=("$source")
  else printf 'left out\t%s\t%s\n' "$name" "$reason" >"$WORK/result/$name"; fi
done
for source in "${list[@]}"; do rm -f "$WORK/result/$(basename "$source")"; done
printf '%s\0' "${list[@]}" | xargs -0 -P "$JOBS" -I{} bash -c 'one "$1"' - {} >/dev/null
for source in "${list[@]}"; do cat "$WORK/result/$(basename "$source")"; done | sort |
  awk -F'\t' '{ printf "%-8s %-36s %s\n", $1, $2, $3 }'
passed=$(for source in "${list[@]}"; do cat "$WORK/result/$(basename "$source")"; done | grep -c '^pass')
echo "$passed of ${#list[@]} samples pass on the software GPU"
