#!/usr/bin/env bash
# The CUDA backend on a card, in two parts, since machines with a card are seldom those that it is worked on:
#
#   runtime/cuda/device.sh build DIR   anywhere with Go: makes DIR with all that the second part needs
#   DIR/device.sh run                  on a machine with a card and its driver, without Go and without a network
#
# The second part writes DIR/RESULTS-cuda.md and a log of each step below DIR/log, and goes on where a step fails:
#
#   devices      what essmc finds there
#   driver       the calls of the driver (only where a C compiler is there)
#   instructions single instructions of PTX on the card against the emulator
#   suite        the backend's suite of tests on the card
#   sanitizer    a model under compute-sanitizer's memcheck and racecheck, where that is installed
#   benchmarks   presets, against PyTorch on the same card in three forms, where python3 has torch
#
# GOARCH names another architecture than this machine's for the first part.
set -euo pipefail

build() {
	local dir=$1 root name
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	mkdir -p "$dir/log" "$dir/models"
	dir=$(cd "$dir" && pwd)
	export CGO_ENABLED=0 GOOS=linux
	go -C "$root" build -trimpath -tags cuda -o "$dir/essmc" ./cmd/essmc
	for name in runtime/cuda runtime/cuda/internal/conformance runtime/cuda/driver/libcuda; do
		go -C "$root" test -c -trimpath -tags cuda -o "$dir/$(basename "$name").test" "./$name"
	done
	# Models are made here, by a command for this machine.
	for name in sc35 smnist text; do
		GOOS='' GOARCH='' go -C "$root" run ./cmd/essmc init "$name" -o "$dir/models/$name" --seed 1 >/dev/null
		GOOS='' GOARCH='' go -C "$root" run ./cmd/essmc init "$name" -o "$dir/models/$name-causal" --seed 1 \
			--set layer.bidirectional=false >/dev/null
	done
	mkdir -p "$dir/driver/testdata"
	cp "$root/runtime/cuda/driver/libcuda/testdata/fake.c" "$dir/driver/testdata/"
	cp "$root/bench/peers/torch_cuda.py" "$root/bench/peers/torch_essm.py" "$root/bench/peers/protocol.py" "$dir/"
	cp "$root/runtime/cuda/device.sh" "$dir/device.sh"
	git -C "$root" rev-parse HEAD >"$dir/commit" 2>/dev/null || echo "an unknown commit" >"$dir/commit"
	echo "$dir: take it to a machine with a card, and run ./device.sh run there"
}

# step NAME COMMAND… writes the command's output to log/NAME, and a line of the table.
step() {
	local name=$1 result="passed"
	shift
	"$@" >"log/$name.txt" 2>&1 || result="**failed** ($?)"
	if grep -q "^SKIPPED: " "log/$name.txt"; then result=$(grep "^SKIPPED: " "log/$name.txt" | head -n 1 | cut -d' ' -f2-); fi
	echo "| $name | $result | $(tail -n 1 "log/$name.txt" | tr -d '|' | cut -c1-120) |" >>RESULTS-cuda.md
	echo "$name: $result"
	[ "$result" != "${result#\*\*}" ] && failed=1
	return 0
}

driver_step() {
	command -v gcc >/dev/null || command -v cc >/dev/null || { echo "SKIPPED: no C compiler"; return 0; }
	(cd driver && ../libcuda.test -test.v)
}

sanitizer_step() {
	command -v compute-sanitizer >/dev/null || { echo "SKIPPED: no compute-sanitizer"; return 0; }
	local tool
	for tool in memcheck racecheck initcheck synccheck; do
		compute-sanitizer --tool "$tool" --error-exitcode 9 ./essmc bench models/smnist --shape 2x129 --repeat 1 \
			--device cuda --fallback cpu || return
	done
}

bench_step() {
	local torch=()
	python3 -c 'import torch, numpy' 2>/dev/null || torch=(--without-torch)
	if ! command -v python3 >/dev/null; then echo "SKIPPED: no python3"; return 0; fi
	python3 torch_cuda.py ./essmc bench.md --device "$device" "${torch[@]}" models/sc35:1x1000,8x1000,1x16000,8x16000 \
		models/sc35-causal:1x16000,8x16000 models/text:1x4096,8x4096 models/smnist:1x784,64x784
}

run() {
	cd "$(dirname "${BASH_SOURCE[0]}")"
	mkdir -p log
	failed=0
	export ESSMC_TUNE=off
	if [ "$device" = cuda ]; then export ESSMC_CUDA=1; fi
	{
		echo "# essmc on an NVIDIA card"
		echo
		echo "Written by runtime/cuda/device.sh on $(date -u +%F), at commit $(cat commit)."
		echo
		./essmc version | sed 's/^/    /'
		./essmc devices | sed 's/^/    /'
		nvidia-smi -q 2>/dev/null | grep -E 'Product Name|Driver Version|Max Clocks|Power Limit' | sort -u | sed 's/^ */    /' || true
		echo
		echo "| step | result | last line |"
		echo "|---|---|---|"
	} >RESULTS-cuda.md
	step devices ./essmc devices
	if [ "$device" = cuda ] && ! ./essmc devices | grep -q 'cuda:0 .* yes'; then
		cat log/devices.txt
		echo "no card that runs models: nothing else can be tried" | tee -a RESULTS-cuda.md
		exit 1
	fi
	step driver driver_step
	step instructions ./conformance.test -test.v
	step suite ./cuda.test -test.v -test.run '^TestCard$' -test.timeout 60m
	step sanitizer sanitizer_step
	step benchmarks bench_step
	[ ! -f bench.md ] || { echo; cat bench.md; } >>RESULTS-cuda.md
	echo "RESULTS-cuda.md and log hold what was found"
	exit "$failed"
}

device=${ESSMC_DEVICE:-cuda} # "cpu" tries the script on a machine without a card
case "${1-}" in
build) build "${2:?expected the folder to make}" ;;
run) run ;;
*)
	sed -n '2,20p' "${BASH_SOURCE[0]}"
	exit 2
	;;
esac
