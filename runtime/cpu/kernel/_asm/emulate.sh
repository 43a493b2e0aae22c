#!/bin/bash
# Runs a test program on an emulated processor that has AVX-512, for machines without one:
#
#	CGO_ENABLED=0 go test -c -o /tmp/kernel.test ./runtime/cpu/kernel
#	runtime/cpu/kernel/_asm/emulate.sh /tmp/kernel.test -test.v -test.run Gemm
#
# Bochs boots a Linux that runs the program alone. It starts in about 40 s, and runs at about a hundredth of a processor's
# speed. Environment variables that begin with ESSMC_ are passed on, and so are the reference cases in ESSMC_SHARED. The
# script needs, under Debian,
#
#	apt-get install bochs isolinux syslinux-common xorriso cpio
#	apt-get download linux-image-cloud-amd64   # then the package that this one depends on, and dpkg -x FILE.deb DIR
#
# and the path of that kernel (DIR/boot/vmlinuz-…) in VMLINUZ. EMULATE_CPU is one of `bochs --help cpu` (corei7_skylake_x),
# EMULATE_LIMIT the time limit in seconds (600), EMULATE_KERNEL_ARGS further arguments of the kernel.
#
# AVX512_VNNI, AVX512_BF16 and AVX_VNNI need a Bochs later than release 3.0 (configured with --enable-x86-64 --enable-evex
# --with-rfb). EMULATE_BOCHS is the program, EMULATE_BIOS its bios/BIOS-bochs-latest. The kernel does not start on its newer
# processors, but it does on
#
#	EMULATE_CPU='corei7_skylake_x, add_features="avx512vnni,avx512bf16,avx_vnni"'
#
# once cpu/cpudb/intel/corei7_skylake-x.cc reports these three in CPUID's leaf 7 as sapphire_rapids.cc does. Tests of products
# in low precision log whether they have found the instructions.
set -euo pipefail
[ $# -gt 0 ] && [ -f "${VMLINUZ:-}" ] || { sed -n '2,/^set/{/^#/s/^# \?//p}' "$0"; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
test=$1
shift
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

mkdir -p "$tmp"/root/{dev,proc,tmp} "$tmp/iso/isolinux"
(cd "$here" && CGO_ENABLED=0 GOFLAGS= GOOS=linux GOARCH=amd64 go build -o "$tmp/root/init" ./emulate)
cp "$test" "$tmp/root/test"
printf '%s\n' "$@" > "$tmp/root/args"
if [ -n "${ESSMC_SHARED:-}" ]; then
	mkdir "$tmp/root/shared"
	cp -r "$ESSMC_SHARED/reference" "$tmp/root/shared/"
	export ESSMC_SHARED=/shared
fi
env | grep '^ESSMC_' > "$tmp/root/env" || true
(cd "$tmp/root" && find . | cpio -o -H newc --quiet | gzip -1 > "$tmp/iso/initrd.gz")

cp "$VMLINUZ" "$tmp/iso/vmlinuz"
cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$tmp/iso/isolinux/"
# The two bits XSAVEC and XSAVES are cleared, so that the kernel does not ask for the size of a compacted state. Bochs 2.7
# returns a wrong size, with which the kernel disables AVX.
cat > "$tmp/iso/isolinux/isolinux.cfg" <<END
serial 0 115200
default linux
label linux
kernel /vmlinuz
append initrd=/initrd.gz console=ttyS0,115200 quiet nokaslr mitigations=off tsc=reliable no_timer_check lpj=1000000 random.trust_cpu=on clearcpuid=321,323 ${EMULATE_KERNEL_ARGS:-}
END
xorriso -as mkisofs -quiet -o "$tmp/boot.iso" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table "$tmp/iso" 2> "$tmp/xorriso.log" || { cat "$tmp/xorriso.log"; exit 1; }

cat > "$tmp/bochsrc" <<END
cpu: model=${EMULATE_CPU:-corei7_skylake_x}, count=1, ips=100000000, reset_on_triple_fault=0
memory: guest=1024, host=1024
romimage: file=${EMULATE_BIOS:-/usr/share/bochs/BIOS-bochs-latest}
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
ata0-master: type=cdrom, path=$tmp/boot.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$tmp/serial
display_library: rfb, options="timeout=0"
log: $tmp/bochs.log
clock: sync=none
panic: action=fatal
END
touch "$tmp/serial"
bochs=${EMULATE_BOCHS:-bochs}
go=()
if "$bochs" --help 2>&1 | grep -q -- '-rc '; then # with a debugger, Bochs waits for a command
	echo c > "$tmp/rc"
	go=(-rc "$tmp/rc")
fi
timeout "${EMULATE_LIMIT:-600}" "$bochs" -q -f "$tmp/bochsrc" "${go[@]}" > "$tmp/bochs.out" 2>&1 || true
sed -n '/^emulate: begin/,$p' "$tmp/serial"
if ! grep -q '^emulate: ' "$tmp/serial"; then # the program did not start
	tail -n 20 "$tmp/serial" "$tmp/bochs.out"
fi
grep -q '^emulate: passed' "$tmp/serial"
