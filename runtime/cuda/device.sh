#!/usr/bin/env bash
# The CUDA backend on a card, in two parts, since machines with a card are seldom those that it is worked on:
#
#   runtime/cuda/device.sh build DIR   anywhere with Go and its modules, without a network: makes DIR with all that is needed
#   DIR/device.sh run                  on a machine with a card: needs its driver, bash and GNU's coreutils; no Go, no network
#
# The second part writes all below DIR/results: RESULTS-cuda.md, and a log of each step. A step that fails, or takes longer than
# its limit, does not keep the others from running. Who calls it again goes on with the steps that have not passed; "run STEP…"
# does these steps anew.
#
#   devices      what essmc finds there
#   instructions single instructions of PTX on the card against the emulator
#   answers      a model on the card against the processor
#   times        presets by essmc bench
#   suite        the backend's suite of tests on the card
#   driver       the calls of the driver (only where a C compiler is there)
#   torch        presets against PyTorch on the same card in three forms (only where python3 has torch)
#   sanitizer    a model under compute-sanitizer's tools (only where that is installed)
#
# GOARCH names another architecture than this machine's for the first part. "build DIR --emulate" makes a folder whose card is
# the emulator, and whose numbers are no times: it shows that the steps work.
set -euo pipefail

steps="devices instructions answers times suite driver torch sanitizer"
note="The card was the emulator: no number here is a time."

build() {
	local dir=$1 root name tags=cuda
	root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
	mkdir -p "$dir/models"
	dir=$(cd "$dir" && pwd)
	if [ "${2-}" = --emulate ]; then
		tags=cuda,emulate
		touch "$dir/emulated"
		mkdir -p "$dir/bin" # with a program in the place of NVIDIA's, which runs the command alone
		printf '#!/usr/bin/env bash\nshift 4\nexec "$@"\n' >"$dir/bin/compute-sanitizer"
		chmod +x "$dir/bin/compute-sanitizer"
	fi
	export CGO_ENABLED=0 GOPROXY=off
	GOOS=linux go -C "$root" build -trimpath -tags "$tags" -o "$dir/essmc" ./cmd/essmc
	for name in runtime/cuda runtime/cuda/internal/conformance runtime/cuda/driver/libcuda; do
		GOOS=linux go -C "$root" test -c -trimpath -tags "$tags" -o "$dir/$(basename "$name").test" "./$name"
	done
	# Models are made here, by a command for this machine.
	for name in sc35 smnist text; do
		GOARCH='' go -C "$root" run ./cmd/essmc init "$name" -o "$dir/models/$name" --seed 1 >/dev/null
		GOARCH='' go -C "$root" run ./cmd/essmc init "$name" -o "$dir/models/$name-causal" --seed 1 \
			--set layer.bidirectional=false >/dev/null
	done
	mkdir -p "$dir/driver/testdata"
	cp "$root/runtime/cuda/driver/libcuda/testdata/fake.c" "$dir/driver/testdata/"
	cp "$root/bench/peers/torch_cuda.py" "$root/bench/peers/torch_essm.py" "$root/bench/peers/protocol.py" "$dir/"
	cp "$root/runtime/cuda/device.sh" "$dir/device.sh"
	git -C "$root" rev-parse HEAD >"$dir/commit" 2>/dev/null || echo "an unknown commit" >"$dir/commit"
	echo "$dir: take it to a machine with a card, and run ./device.sh run there"
}

# skip WHY ends a step that this machine has nothing for.
skip() {
	echo "SKIPPED: $1"
	exit 0
}

step_devices() { # 120
	./essmc version
	./essmc devices
	nvidia-smi -q 2>/dev/null | grep -E 'Product Name|Driver Version|Max Clocks|Power Limit' | sort -u || true
}

step_instructions() { # 900
	./conformance.test -test.v
}

step_answers() { # 600
	local name
	for name in smnist smnist-causal; do
		./essmc compare "models/$name" --shape "${pick:-2x129}" --device-a cpu --device-b cuda
	done
}

step_times() { # 1800
	local list model shape file
	list=${cases:-"sc35:1x1000 sc35:8x1000 sc35:1x16000 sc35:8x16000 sc35-causal:1x16000 sc35-causal:8x16000 text:1x4096 \
text:8x4096 smnist:1x784 smnist:64x784"}
	mkdir -p results/times
	for model in $list; do
		shape=${model#*:} model=${model%:*}
		file=results/times/$model-$shape.json
		[ -s "$file" ] && continue # of a call before
		./essmc bench "models/$model" --shape "$shape" --device cuda --json ${repeat:+--repeat "$repeat"} >"$file.part"
		mv "$file.part" "$file"
		echo "$model $shape: $(median "$file") ms"
	done
}

median() { sed -n 's/.*"median_ms": *\([0-9.e+-]*\).*/\1/p' "$1" | head -n 1; }

step_suite() { # 5400
	./cuda.test -test.v -test.run '^TestCard$' -test.timeout 85m
}

step_driver() { # 300
	command -v gcc >/dev/null || command -v cc >/dev/null || skip "no C compiler"
	cd driver
	../libcuda.test -test.v
}

step_torch() { # 3600
	command -v python3 >/dev/null || skip "no python3"
	python3 -c 'import torch, numpy' 2>/dev/null || skip "python3 has no torch and numpy"
	python3 torch_cuda.py ./essmc results/torch.md --device cuda models/sc35:1x1000,8x1000,1x16000,8x16000 \
		models/sc35-causal:1x16000,8x16000 models/text:1x4096,8x4096 models/smnist:1x784,64x784
}

step_sanitizer() { # 1800
	command -v compute-sanitizer >/dev/null || skip "no compute-sanitizer"
	local tool
	for tool in memcheck racecheck initcheck synccheck; do
		compute-sanitizer --tool "$tool" --error-exitcode 9 ./essmc bench models/smnist --shape "${pick:-2x129}" --repeat 1 \
			--device cuda
	done
}

# limit prints the seconds that a step may take: the number behind its first line.
limit() { sed -n "s/^step_$1() { # //p" device.sh; }

# step NAME runs a step, unless it has passed, and notes its result.
step() {
	local name=$1 result=passed code=0 began=$SECONDS
	[ "$(cat "results/$name.result" 2>/dev/null)" = passed ] && return
	timeout -k 30 "$(limit "$name")" ./device.sh step "$name" >"results/$name.txt" 2>&1 || code=$?
	case $code in
	0) result=$(sed -n 's/^SKIPPED: /skipped: /p' "results/$name.txt" | head -n 1) ;;
	124 | 137) result="**failed**: not done in $(limit "$name") s" ;;
	*) result="**failed** ($code)" ;;
	esac
	echo "${result:-passed}" >"results/$name.result"
	echo "$name: ${result:-passed}, $((SECONDS - began)) s"
}

# report writes results/RESULTS-cuda.md from what is below results.
report() {
	local name file
	{
		echo "# essmc on an NVIDIA card"
		echo
		echo "Written by runtime/cuda/device.sh on $(cat results/date), at commit $(cat commit)."
		[ ! -f emulated ] || printf '\n**%s**\n' "$note"
		echo
		sed 's/^/    /' results/devices.txt 2>/dev/null || true
		echo
		echo "| step | result | last line |"
		echo "|---|---|---|"
		for name in $steps; do
			[ -f "results/$name.result" ] || continue
			echo "| $name | $(cat "results/$name.result") | $(tail -n 1 "results/$name.txt" | tr -d '|' | cut -c1-120) |"
		done
		if ls results/times/*.json >/dev/null 2>&1; then
			echo
			echo "Milliseconds of a run with the copies of its input and result: the median. float32."
			echo
			echo "| model | shape | essmc |"
			echo "|---|---|---:|"
			for file in results/times/*.json; do
				name=$(basename "$file" .json)
				echo "| ${name%-*} | ${name##*-} | $(median "$file") |"
			done
		fi
		[ ! -f results/torch.md ] || { echo && cat results/torch.md; }
	} >results/RESULTS-cuda.md.part
	mv results/RESULTS-cuda.md.part results/RESULTS-cuda.md
}

run() {
	local name
	mkdir -p results
	for name in "$@"; do
		case " $steps " in *" $name "*) ;; *) echo "no step $name: expected some of $steps" && exit 2 ;; esac
		rm -rf "results/$name.result"
		[ "$name" != times ] || rm -rf results/times
	done
	date -u +%F >results/date
	for name in $steps; do
		step "$name"
		report
		if [ "$name" = devices ] && ! grep -q '^ *cuda:0 .* yes' results/devices.txt; then
			echo "**failed**: no card that runs models" >results/devices.result
			report
			cat results/devices.txt
			echo "no card that runs models: nothing else can be tried"
			exit 1
		fi
	done
	echo "results/RESULTS-cuda.md and the logs beside it hold what was found"
	! grep -q failed results/*.result
}

case "${1-}" in
build) build "${2:?expected the folder to make}" "${3-}" ;;
run | step | report)
	cd "$(dirname "${BASH_SOURCE[0]}")"
	export ESSMC_TUNE=off ESSMC_CUDA=1
	if [ -f emulated ]; then # what an emulator can do in the same limits
		export ESSMC_CUDA=emulate PATH="$PWD/bin:$PATH"
		pick=1x9 cases="sc35:1x16 sc35-causal:1x16 text:1x16 smnist:1x16" repeat=1
	fi
	case $1 in
	run) run "${@:2}" ;;
	step) "step_$2" ;;
	report) report ;;
	esac
	;;
*)
	sed -n '2,23p' "${BASH_SOURCE[0]}"
	exit 2
	;;
esac
