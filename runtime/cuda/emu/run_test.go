package emu

import (
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// FuzzRun runs what compiles: each outcome is an answer, a finding or an error.
func FuzzRun(f *testing.F) {
	f.Add(exchange("bar.sync 0;"))
	for i, c := range instructions {
		if i%4 == 0 && !strings.Contains(c.text, "d, {") {
			r := strings.NewReplacer(" d", " %r1", " a", " %r2", " b", " %r3", " c", " %r4")
			f.Add(kernelText(2, r.Replace(c.text)+";"))
		}
	}
	f.Add(kernelText(2, "st.global.v2.f32 [%rd0+8], {%f0, %f1};\nL: setp.lt.u32.and %p0|%p1, %r0, 7, !%p2;\n@%p0 bra L;"))
	f.Add(kernelText(2, ".local .b32 l[4];\nst.local.u8 [l+3], %r0;\natom.shared.cas.b32 %r1, [%r2], %r3, %r4;\nbar.warp.sync -1;"))
	f.Add(kernelText(2, "cp.async.ca.shared.global [%r1], [%rd0], 4;\ncp.async.commit_group;\ncp.async.wait_group 0;\nldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r1, %r2}, [%r3];"))
	f.Add(kernelText(2, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7}, {%f1, %f2, %f3, %f1}, {%f2, %f3}, {%f4, %f5, %f6, %f7};\nvote.sync.any.pred %p0, %p1, 3;\nshfl.sync.up.b32 %r1, %r2, %r3, %r4, %r5;"))
	f.Fuzz(func(t *testing.T, text string) {
		b := newBench(t, Options{Instructions: 2000})
		m, _, err := b.d.LoadModule([]byte(text + "\x00"))
		if err != nil {
			return
		}
		b.mods = append(b.mods, m)
		fn, err := b.d.GetFunction(m, "k")
		if err != nil {
			return
		}
		k := b.d.functions[fn].kernel
		if k.local > 4096 || k.n32+k.n64 > 10000 {
			return
		}
		p := b.upload(make([]byte, 512))
		block := driver.Dim{X: 40, Y: 1, Z: 1}
		if k.reqntid[0] > 0 {
			return
		}
		raw := params(p, p)
		for len(raw) < k.bytes {
			raw = append(raw, raw...)
		}
		if err := b.d.Launch(driver.Launch{Func: fn, Grid: driver.Dim{X: 3, Y: 1, Z: 1}, Block: block, Stream: b.stream,
			Params: raw[:k.bytes]}); err != nil {
			return
		}
		if err := b.d.Synchronize(b.stream); err != nil && (!driver.Sticky(err) || !strings.Contains(err.Error(), "kernel k")) {
			t.Errorf("an error that is no fault of the kernel: %v", err)
		}
	})
}
