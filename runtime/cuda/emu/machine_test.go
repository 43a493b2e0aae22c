package emu

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// exchange stores each thread's index in shared memory and reads the index of the thread 32 further on, with and
// without a barrier.
func exchange(barrier string) string {
	return kernelText(1, `.shared .align 4 .b8 s[512];
mov.u32 %r1, s;
mad.lo.u32 %r2, %r0, 4, %r1;
st.shared.u32 [%r2], %r0;
`+barrier+`
add.u32 %r3, %r0, 32;
and.b32 %r3, %r3, 127;
mad.lo.u32 %r4, %r3, 4, %r1;
ld.shared.u32 %r5, [%r4];
mad.wide.u32 %rd1, %r0, 4, %rd0;
st.global.u32 [%rd1], %r5;`)
}

// wrong counts the threads that read another value than the index of the thread 32 further on.
func wrong(t *testing.T, text string, seed uint64) int {
	b := newBench(t, Options{Seed: seed, Unchecked: true})
	defer b.clean()
	out := b.alloc(512)
	must(t, b.launch(b.load(text), 1, 128, out))
	got, n := b.download(out, 512), 0
	for i := range 128 {
		if binary.LittleEndian.Uint32(got[4*i:]) != uint32(i+32)%128 {
			n++
		}
	}
	return n
}

// TestMissingBarrier checks that a missing barrier shows in the answers for most seeds, and that no seed changes the
// answers of a kernel that has it.
func TestMissingBarrier(t *testing.T) {
	shown := 0
	for seed := range uint64(50) {
		if n := wrong(t, exchange("bar.sync 0;"), seed); n != 0 {
			t.Errorf("seed %d: %d threads are wrong in spite of the barrier", seed, n)
		}
		if wrong(t, exchange(""), seed) != 0 {
			shown++
		}
	}
	if shown < 40 {
		t.Errorf("the missing barrier shows for %d of 50 seeds", shown)
	}
}

// TestSameSeed checks that a seed fixes the answers of a kernel whose threads race.
func TestSameSeed(t *testing.T) {
	const text = `mov.u32 %r1, %ctaid.x;
mov.u32 %r2, 1;
atom.global.add.u32 %r3, [%rd0], %r2;
mov.u32 %r4, %ntid.x;
mad.lo.u32 %r5, %r1, %r4, %r0;
mad.wide.u32 %rd1, %r5, 4, %rd0;
st.global.u32 [%rd1+4], %r3;`
	run := func(seed uint64) string {
		b := newBench(t, Options{Seed: seed, Unchecked: true})
		defer b.clean()
		p := b.upload(make([]byte, 4+4*64*20))
		must(t, b.launch(b.load(kernelText(1, text)), 20, 64, p))
		return string(b.download(p, 4+4*64*20))
	}
	different := 0
	for seed := range uint64(10) {
		first := run(seed)
		if run(seed) != first {
			t.Errorf("seed %d: two runs differ", seed)
		}
		if run(seed+100) != first {
			different++
		}
		seen := map[uint32]bool{}
		for i := range 64 * 20 {
			seen[binary.LittleEndian.Uint32([]byte(first[4+4*i:]))] = true
		}
		if n := binary.LittleEndian.Uint32([]byte(first)); n != 64*20 || len(seen) != 64*20 {
			t.Errorf("seed %d: the counter is %d, with %d values", seed, n, len(seen))
		}
	}
	if different < 9 {
		t.Errorf("%d of 10 seeds change the order of blocks", different)
	}
}

// TestControl checks that lanes part and meet again, against the same program in Go.
func TestControl(t *testing.T) {
	const text = `
mov.u32 %r1, %r0;
mov.u32 %r2, 0;
TOP:
setp.eq.u32 %p0, %r1, 1;
@%p0 bra END;
setp.gt.u32 %p1, %r2, 60;
@%p1 bra END;
setp.eq.u32 %p3, %r1, 0;
@%p3 ret;
and.b32 %r3, %r1, 1;
setp.ne.u32 %p2, %r3, 0;
@%p2 bra ODD;
shr.u32 %r1, %r1, 1;
bra.uni NEXT;
ODD:
mad.lo.u32 %r1, %r1, 3, 1;
NEXT:
add.u32 %r2, %r2, 1;
bra TOP;
END:
activemask.b32 %r4;
popc.b32 %r5, %r4;
mad.wide.u32 %rd1, %r0, 8, %rd0;
st.global.v2.u32 [%rd1], {%r2, %r5};`
	b := newBench(t, Options{})
	defer b.clean()
	p := b.upload(make([]byte, 8*96))
	must(t, b.launch(b.load(kernelText(1, text)), 1, 96, p))
	got := b.download(p, 8*96)
	for i := range 96 {
		x, steps, meet := i, uint32(0), uint32(32)
		for i > 0 && x != 1 && steps <= 60 {
			if x&1 == 1 {
				x = 3*x + 1
			} else {
				x /= 2
			}
			steps++
		}
		if i < 32 {
			meet = 31 // lane 0 has ended
		}
		if i == 0 {
			meet = 0
		}
		if n, lanes := binary.LittleEndian.Uint32(got[8*i:]), binary.LittleEndian.Uint32(got[8*i+4:]); n != steps || lanes != meet {
			t.Errorf("thread %d: %d steps with %d lanes at the end, expected %d with %d", i, n, lanes, steps, meet)
		}
	}
}

// TestWarp checks shuffles, votes and reductions.
func TestWarp(t *testing.T) {
	for _, c := range []struct {
		text string
		want func(i int) uint32
	}{
		{"shfl.sync.down.b32 %r2, %r0, 3, 31, 0xffffffff;", func(i int) uint32 {
			if i+3 > 31 {
				return uint32(i)
			}
			return uint32(i + 3)
		}},
		{"shfl.sync.up.b32 %r2, %r0, 5, 0, -1;", func(i int) uint32 {
			if i < 5 {
				return uint32(i)
			}
			return uint32(i - 5)
		}},
		{"shfl.sync.bfly.b32 %r2|%p1, %r0, 17, 31, -1;", func(i int) uint32 { return uint32(i ^ 17) }},
		{"shfl.sync.idx.b32 %r2, %r0, 2, 0x181f, -1;", func(i int) uint32 { return uint32(i&^7 | 2) }},
		{"shfl.sync.up.b32 %r2|%p1, %r0, 1, 0x1c00, -1;\nselp.u32 %r2, %r2, 99, %p1;", func(i int) uint32 {
			if i%4 == 0 {
				return 99
			}
			return uint32(i - 1)
		}},
		{"setp.lt.u32 %p1, %r0, 7;\nvote.sync.ballot.b32 %r2, %p1, -1;", func(int) uint32 { return 0x7f }},
		{"setp.lt.u32 %p1, %r0, 7;\nvote.sync.any.pred %p2, %p1, -1;\nselp.u32 %r2, 1, 0, %p2;", func(int) uint32 { return 1 }},
		{"setp.lt.u32 %p1, %r0, 7;\nvote.sync.all.pred %p2, !%p1, -1;\nselp.u32 %r2, 1, 0, %p2;", func(int) uint32 { return 0 }},
		{"redux.sync.add.u32 %r2, %r0, -1;", func(int) uint32 { return 496 }},
		{"mov.u32 %r2, %lanemask_le;", func(i int) uint32 { return uint32(uint64(2)<<i - 1) }},
		{"mov.u32 %r2, 5;\nsetp.gt.u32 %p1, %r0, 9;\n@!%p1 mov.u32 %r2, 6;", func(i int) uint32 {
			if i > 9 {
				return 5
			}
			return 6
		}},
	} {
		b := newBench(t, Options{})
		p := b.upload(make([]byte, 128))
		must(t, b.launch(b.load(kernelText(1, c.text+"\nmad.wide.u32 %rd1, %r0, 4, %rd0;\nst.global.u32 [%rd1], %r2;")), 1, 32, p))
		for i, got := 0, b.download(p, 128); i < 32; i++ {
			if x := binary.LittleEndian.Uint32(got[4*i:]); x != c.want(i) {
				t.Errorf("%s: lane %d has %d, expected %d", c.text, i, x, c.want(i))
			}
		}
		b.clean()
	}
}

// TestMemory moves data through vectors, narrow types, local memory and dynamic shared memory.
func TestMemory(t *testing.T) {
	text := strings.Replace(kernelText(2, `
.local .align 8 .b8 stack[64];
mad.wide.u32 %rd2, %r0, 16, %rd0;
mad.wide.u32 %rd3, %r0, 16, %rd1;
ld.global.v4.f32 {%f0, %f1, %f2, %f3}, [%rd2];
mov.u32 %r1, dyn;
mad.lo.u32 %r1, %r0, 16, %r1;
st.shared.v4.f32 [%r1], {%f3, %f2, %f1, %f0};
ld.shared.v2.u64 {%rd4, %rd5}, [%r1];
st.local.u64 [stack+8], %rd4;
st.local.b8 [stack], %r0;
ld.local.s8 %r2, [stack];
ld.local.b64 %rd6, [stack+8];
st.global.v2.b64 [%rd3], {%rd6, %rd5};
ld.global.u8 %r3, [%rd2+15];
ld.global.s16 %r4, [%rd2+14];
xor.b32 %r5, %r3, %r4;
mad.wide.u32 %rd7, %r0, 4, %rd1;
st.global.u32 [%rd7+512], %r5;`), ".visible", ".extern .shared .align 16 .b8 dyn[];\n.visible", 1)
	b := newBench(t, Options{})
	defer b.clean()
	in := make([]byte, 512)
	for i := range in {
		in[i] = byte(i*7 + i>>4)
	}
	out := b.alloc(512 + 128)
	fn := b.load(text)
	must(t, b.d.Launch(driver.Launch{Func: fn, Grid: driver.Dim{X: 1, Y: 1, Z: 1}, Block: driver.Dim{X: 32, Y: 1, Z: 1},
		Stream: b.stream, Shared: 512, Params: params(b.upload(in), out)}))
	got := b.download(out, 640)
	for i := range 32 {
		for j := range 4 {
			if x, want := string(got[16*i+4*j:][:4]), string(in[16*i+4*(3-j):][:4]); x != want {
				t.Errorf("thread %d, word %d: %x, expected %x", i, j, x, want)
			}
		}
		v := uint32(in[16*i+15]) ^ uint32(int32(int16(binary.LittleEndian.Uint16(in[16*i+14:]))))
		if x := binary.LittleEndian.Uint32(got[512+4*i:]); x != v {
			t.Errorf("thread %d: %#x, expected %#x", i, x, v)
		}
	}
}

// TestApprox checks approximate functions against their bounds, and that they are not exact.
func TestApprox(t *testing.T) {
	for _, c := range []struct {
		op    string
		f     func(float64) float64
		bound float64 // relative
		x     func(i int) float32
	}{
		{"ex2.approx.f32", math.Exp2, 0x1p-22, func(i int) float32 { return float32(i)*0.13 - 60 }},
		{"lg2.approx.f32", math.Log2, 0x1p-22, func(i int) float32 { return 2 + float32(i)*0.7 }},
		{"rsqrt.approx.f32", func(x float64) float64 { return 1 / math.Sqrt(x) }, 1.515 * 0x1p-23, func(i int) float32 { return 0.1 + float32(i)*0.7 }},
		{"rcp.approx.f32", func(x float64) float64 { return 1 / x }, 0x1p-23, func(i int) float32 { return 0.1 + float32(i)*0.7 }},
		{"tanh.approx.f32", math.Tanh, 0x1p-11, func(i int) float32 { return float32(i)*0.01 + 0.01 }},
	} {
		b := newBench(t, Options{Seed: 3})
		const n = 1024
		in := make([]byte, 4*n)
		for i := range n {
			binary.LittleEndian.PutUint32(in[4*i:], math.Float32bits(c.x(i)))
		}
		out := b.alloc(4 * n)
		must(t, b.launch(b.load(kernelText(2, "mad.wide.u32 %rd2, %r0, 4, %rd0;\nmad.wide.u32 %rd3, %r0, 4, %rd1;\n"+
			"ld.global.f32 %f0, [%rd2];\n"+c.op+" %f1, %f0;\nst.global.f32 [%rd3], %f1;")), 1, n, b.upload(in), out))
		got := b.download(out, 4*n)
		worst := 0.0
		for i := range n {
			want := c.f(float64(c.x(i)))
			worst = max(worst, math.Abs(float64(f(uint64(binary.LittleEndian.Uint32(got[4*i:]))))-want)/math.Abs(want))
		}
		if worst > c.bound*1.0001 || worst < c.bound/3 {
			t.Errorf("%s is off by %.3g relatively, expected up to %.3g", c.op, worst, c.bound)
		}
		b.clean()
	}
}

// TestFaults checks that faults of kernels are named, and stay.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"st.global.u32 [%rd0+8], %r0;", "out of bounds: 4 bytes at global address"},
		{"st.global.u32 [%rd0-4], %r0;", "out of bounds"},
		{"st.global.u32 [%rd0+2], %r0;", "not aligned to 4 bytes"},
		{"mov.u32 %r1, 4;\nst.shared.u32 [%r1], %r0;", "shared address 4"},
		{".shared .align 4 .b8 s[8];\nst.shared.u32 [s+8], %r0;", "out of bounds"},
		{"setp.eq.u32 %p0, %r0, 3;\n@%p0 trap;", "thread 3,0,0: trap"},
		{"setp.lt.u32 %p0, %r0, 32;\n@!%p0 bra A;\nbar.sync 1;\nA: bar.sync 0;", "deadlock"},
		{"L: bra L;", "more than 100000 instructions"},
	} {
		b := newBench(t, Options{Instructions: 100000})
		p := b.alloc(8)
		err := b.launch(b.load(kernelText(1, c.text)), 1, 64, p)
		if err == nil || !strings.Contains(err.Error(), c.want) || !driver.Sticky(err) {
			t.Errorf("%s: %v, expected %q", c.text, err, c.want)
			continue
		}
		if err := b.d.Synchronize(b.stream); err == nil || !driver.Sticky(err) {
			t.Errorf("%s: the error does not stay: %v", c.text, err)
		}
		if _, err := b.d.AllocFromPool(b.pool, 8, b.stream); !driver.Sticky(err) {
			t.Errorf("%s: the context works on: %v", c.text, err)
		}
	}
}

// TestFindings checks the findings other than faults.
func TestFindings(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"setp.lt.u32 %p0, %r0, 5;\n@%p0 bar.sync 0;", "barrier in divergent code"},
		{"setp.lt.u32 %p0, %r0, 5;\n@%p0 ret;\nbar.sync 0;", "barrier in divergent code"},
		{"setp.lt.u32 %p0, %r0, 5;\n@%p0 shfl.sync.idx.b32 %r1, %r0, 9, 31, 0x1f;", "shuffle from lane 9"},
		{"setp.lt.u32 %p0, %r0, 5;\n@%p0 shfl.sync.idx.b32 %r1, %r0, 1, 31, -1;", "does not take part"},
		{"setp.lt.u32 %p0, %r0, 5;\n@%p0 bar.warp.sync 3;", "does not name it"},
		{"add.u32 %r1, %r0, %r2;", "read of register %r2, which not all paths"},
		{"@%p3 bra L;\nL:", "read of register %p3,"},
		{".shared .b32 x;\nst.shared.u32 [x], %r3;", "%r3, which not all paths"},
		{"setp.lt.u32 %p0, %r0, 5;\n@%p0 bra L;\nmov.u32 %r1, 1;\nL: add.u32 %r2, %r1, 1;", "%r1, which not all paths"},
		{"mov.u32 %r2, 0;\nL: setp.gt.u32 %p0, %r2, 3;\n@%p0 bra E;\nadd.u32 %r2, %r2, 1;\nmov.u32 %r1, %r2;\nbra L;\nE: mov.u32 %r3, %r1;",
			"%r1, which not all paths"},
	} {
		b := newBench(t, Options{})
		must(t, b.launch(b.load(kernelText(0, c.text)), 1, 32))
		found := b.close()
		if len(found) == 0 || !strings.Contains(found[0].String(), c.want) || found[0].Line == 0 {
			t.Errorf("%s: found %v, expected %q", c.text, found, c.want)
		}
	}
}

// TestText checks that errors of the text name line and text.
func TestText(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "line 1: expected .version"},
		{".version 7.0\n.target sm_80\n.address_size 32\n", "line 3: expected .address_size 64"},
		{".version 7.0\n.foo\n", "line 2: unknown directive .foo"},
		{kernelText(0, "frob.u32 %r1, %r0;"), "unknown instruction frob.u32"},
		{kernelText(0, "add.u33 %r1, %r0, %r0;"), "unknown form of instruction: add.u33"},
		{kernelText(0, "add.u32 %r1, %r0;"), "2 operands: expected 3"},
		{kernelText(0, "add.u32 %r1, %r0, %rd0;"), "register %rd0 is of type .b64"},
		{kernelText(0, "add.u32 %r1, %r0, %q;"), "unknown register %q"},
		{kernelText(0, "add.rn.f32 %f1, %f0, 1;"), "unexpected operand for type f32"},
		{kernelText(0, "bra NOWHERE;"), `no label "NOWHERE"`},
		{kernelText(0, "ld.global.u32 %r1, [%r0];"), "holds no address"},
		{kernelText(0, "ld.param.u32 %r1, [p7];"), "no parameter p7"},
		{kernelText(0, "mov.u32 %r1, %clock;"), "unknown register %clock"},
		{kernelText(0, "mov.u64 %rd1, %clock64;"), "unknown name %clock64"},
		{kernelText(0, "mov.pred %p0, !!!%p1;"), "expected a predicate after !"},
		{kernelText(0, "setp.lo.s32 %p0, %r0, 1;"), "unknown form of instruction: setp.lo.s32"},
		{strings.Replace(kernelText(0, "ld.param.u64 %rd1, [n];"), "k()", "k(.param .u32 n, .param .u32 m)", 1), "8 bytes of parameters"},
		{kernelText(0, "L: L:"), "a second label L"},
		{kernelText(0, ".reg .b32 %r1;"), "a second register %r1"},
		{kernelText(0, "cvt.f32.f64 %f1, %fd0;"), "unknown form of instruction"},
		{kernelText(0, "mov.u32 %r1, 0x1ffffffff;"), "more than 32 bits"},
		{header + ".visible .entry k() {", "does not end"},
	} {
		b := newBench(t, Options{})
		_, log, err := b.d.LoadModule([]byte(c.text + "\x00"))
		if c.text != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(log, "line ")) {
			t.Errorf("%v, expected %q", err, c.want)
		}
		b.clean()
	}
}

func FuzzParse(f *testing.F) {
	f.Add(exchange("bar.sync 0;"))
	f.Add(kernelText(2, "@!%p0 bra L;\nL: setp.eq.f32.and %p1|%p2, %f0, 0f3F800000, !%p3; /* x */ // y"))
	f.Add(header + ".extern .shared .align 16 .b8 d[];\n.entry k(.param .align 8 .b8 a[16]) .reqntid 32, 1, 1 .minnctapersm 2 { ld.param.v2.u64 {%rd0, _}, [a]; }")
	f.Fuzz(func(t *testing.T, text string) {
		m, err := parse(text)
		if err != nil {
			if !strings.Contains(err.Error(), "line ") || strings.Contains(err.Error(), "\n") {
				t.Errorf("an error without line, or of several lines: %q", err)
			}
			return
		}
		kernels, err := compile(m)
		if err != nil && !strings.Contains(err.Error(), "line ") {
			t.Errorf("an error without line: %q", err)
		}
		for _, k := range kernels {
			for i := range k.code {
				if in := &k.code[i]; in.flow == flowBranch && (in.target < 0 || in.target >= len(k.code) || in.meet >= len(k.code)) {
					t.Errorf("%s: branch to %d, meeting at %d of %d", in.text, in.target, in.meet, len(k.code))
				}
			}
		}
	})
}

// BenchmarkLanes measures lane instructions: a product of a row by a number, and a chain of fma.
func BenchmarkLanes(b *testing.B) {
	for _, c := range []struct {
		name, loop string
		n          int
	}{
		{"fma", strings.Repeat("fma.rn.f32 %f1, %f1, %f2, %f3;\n", 16), 16},
		{"index", strings.Repeat("mad.lo.u32 %r3, %r3, %r4, %r0;\nadd.u32 %r3, %r3, %r4;\n", 8), 16},
		{"load", strings.Repeat("ld.global.f32 %f4, [%rd1];\nadd.rn.f32 %f1, %f1, %f4;\n", 8), 16},
		{"tensor", strings.Repeat("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f4, %f5, %f6, %f7}, {%f1, %f2, %f3, %f1}, {%f2, %f3}, {%f4, %f5, %f6, %f7};\n", 4), 4},
		{"shared", strings.Repeat("ld.shared.v4.f32 {%f4, %f5, %f6, %f7}, [%r6];\nadd.rn.f32 %f1, %f1, %f4;\n", 8), 16},
	} {
		b.Run(c.name, func(b *testing.B) {
			const turns = 200
			n := newBench(b, Options{Unchecked: true})
			fn := n.load(kernelText(1, `.shared .align 16 .b8 s[2048];
mov.u32 %r5, s;
mad.lo.u32 %r6, %r0, 16, %r5;
mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f3F000000; mov.f32 %f3, 0fBE000000; mov.b64 {%f4, %f5}, %rd0; mov.b64 {%f6, %f7}, %rd0; mov.u32 %r3, 1; mov.u32 %r4, 3; mov.u32 %r1, 0;
mad.wide.u32 %rd1, %r0, 4, %rd0;
TOP:
`+c.loop+fmt.Sprintf(`add.u32 %%r1, %%r1, 1;
setp.lt.u32 %%p0, %%r1, %d;
@%%p0 bra TOP;`, turns)))
			p := n.upload(make([]byte, 512))
			b.ResetTimer()
			for b.Loop() {
				must(b, n.launch(fn, 4, 128, p))
			}
			b.ReportMetric(float64(b.N)*turns*float64(c.n+3)*512/b.Elapsed().Seconds()/1e6, "Mlane/s")
		})
	}
}
