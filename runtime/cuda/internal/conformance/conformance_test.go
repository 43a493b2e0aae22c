package conformance

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/driver/libcuda"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/cuda/internal/ptxas"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// instructions are the instructions that compute: the type of the result, the name, the types of the operands. F
// stands for f32 and f64, B for b32 and b64, N for 32 and 64.
var instructions = expand(`
	F add.rn.F F F; F sub.rn.F F F; F mul.rn.F F F; F div.rn.F F F; F fma.rn.F F F F; F min.F F F; F max.F F F
	F abs.F F; F neg.F F; F sqrt.rn.F F; F rcp.rn.F F; F cvt.rmi.F.F F; F cvt.rpi.F.F F; F cvt.rzi.F.F F; F cvt.rni.F.F F
	pred setp.eq.F F F; pred setp.neu.F F F; pred setp.lt.F F F; pred setp.le.F F F; pred setp.gt.F F F; pred setp.ge.F F F
	pred setp.nan.F F F; F selp.F F F pred
	b32 cvt.rni.s32.F F; b64 cvt.rzi.s64.F F
	f32 min.NaN.f32 f32 f32; f32 max.NaN.f32 f32 f32
	f32 ex2.approx.f32 f32; f32 lg2.approx.f32 f32; f32 rsqrt.approx.f32 f32; f32 rcp.approx.f32 f32; f32 tanh.approx.f32 f32
	b32 cvt.rna.tf32.f32 f32; b16 cvt.rn.bf16.f32 f32; b16 cvt.rn.f16.f32 f32; b32 cvt.rn.bf16x2.f32 f32 f32
	f32 cvt.f32.f16 b16; f64 cvt.f64.f32 f32; f32 cvt.rn.f32.f64 f64; f32 cvt.rz.f32.f64 f64; b64 cvt.rzi.u64.f64 f64
	f32 cvt.rn.f32.s32 b32; f32 cvt.rn.f32.u32 b32; f32 cvt.rn.f32.s64 b64; f32 cvt.rn.f32.u64 b64
	f64 cvt.rn.f64.s32 b32; f64 cvt.rn.f64.s64 b64; f64 cvt.rn.f64.u64 b64; f64 cvt.rn.f64.u32 b32
	b64 cvt.s64.s32 b32; b64 cvt.u64.u32 b32; b32 cvt.u32.u64 b64; b32 cvt.u32.u16 b16; b16 cvt.u16.u32 b32
	B add.uN B B; B sub.uN B B; B mul.lo.uN B B; B mul.hi.uN B B; B mad.lo.uN B B B; B div.uN B B; B rem.uN B B
	B min.uN B B; B max.uN B B; B shr.uN B b32; B shl.bN B b32; B and.bN B B; B or.bN B B; B xor.bN B B; B not.bN B
	B div.sN B B; B rem.sN B B; B min.sN B B; B max.sN B B; B shr.sN B b32; B selp.bN B B pred
	b32 add.s32 b32 b32; b32 sub.s32 b32 b32; b32 mul.lo.s32 b32 b32; b32 mul.hi.s32 b32 b32; b32 mad.lo.s32 b32 b32 b32
	b32 neg.s32 b32; b32 brev.b32 b32; b64 mul.wide.s32 b32 b32; b64 mul.wide.u32 b32 b32
	b64 mad.wide.s32 b32 b32 b64; b64 mad.wide.u32 b32 b32 b64
	pred setp.eq.uN B B; pred setp.ne.uN B B; pred setp.lt.uN B B; pred setp.le.uN B B; pred setp.gt.uN B B; pred setp.ge.uN B B
	pred setp.eq.s32 b32 b32; pred setp.ne.s32 b32 b32; pred setp.lt.sN B B; pred setp.le.sN B B; pred setp.gt.s32 b32 b32
	pred setp.ge.s32 b32 b32
	pred and.pred pred pred; pred or.pred pred pred; pred xor.pred pred pred; pred not.pred pred`)

// others are instructions that compute nothing, or that other tests of this package or of the emulator hold.
var others = regexp.MustCompile(`^(ld|mov|cvta|vote|shfl|atom)\.`)

// bounds are of approximate instructions: how far two cards may differ, in units of 2^-23 of the result, and absolutely.
// They are twice the bounds of the PTX standard, and a unit for roundings.
var bounds = map[string][2]float64{"ex2.approx.f32": {5, 0}, "lg2.approx.f32": {5, 0x1p-21}, "rsqrt.approx.f32": {4, 0},
	"rcp.approx.f32": {3, 0}, "tanh.approx.f32": {8193, 0}}

// An instruction is a line of instructions.
type instruction struct {
	name string
	out  string
	in   []string
}

func expand(text string) []instruction {
	var all []instruction
	for _, s := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		forms := []string{s}
		if regexp.MustCompile(`\bF\b`).MatchString(s) {
			forms = nil
			for _, t := range []string{"f32", "f64"} {
				forms = append(forms, regexp.MustCompile(`\bF\b`).ReplaceAllString(s, t))
			}
		} else if regexp.MustCompile(`\bB\b`).MatchString(s) {
			forms = nil
			for _, n := range []string{"32", "64"} {
				f := regexp.MustCompile(`\bB\b`).ReplaceAllString(s, "b"+n)
				forms = append(forms, regexp.MustCompile(`\b([usb])N\b`).ReplaceAllString(f, "${1}"+n))
			}
		}
		for _, f := range forms {
			if w := strings.Fields(f); len(w) > 2 {
				all = append(all, instruction{w[1], w[0], w[2:]})
			}
		}
	}
	return all
}

// form is the layout of values of a type in registers and memory.
type form struct {
	reg, mem string
	bytes    int
}

var forms = map[string]form{"f32": {"%f", "f32", 4}, "f64": {"%fd", "f64", 8}, "b32": {"%r", "u32", 4}, "b64": {"%q", "u64", 8},
	"b16": {"%h", "u16", 2}, "pred": {"%p", "u32", 4}}

// code is a kernel that applies the instruction to element i of buffers, for each i < n.
func (in instruction) code() string {
	var b strings.Builder
	b.WriteString(".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry apply(.param .u64 p0, .param .u64 p1, .param .u64 p2, " +
		".param .u64 p3, .param .u32 n)\n{\n.reg .pred %p<8>;\n.reg .b32 %r<8>;\n.reg .b32 %i<8>;\n.reg .b64 %a<8>;\n.reg .b64 %q<8>;\n" +
		".reg .f32 %f<8>;\n.reg .f64 %fd<8>;\n.reg .b16 %h<8>;\n" +
		"mov.u32 %i0, %ctaid.x;\nmov.u32 %i1, %tid.x;\nmad.lo.u32 %i2, %i0, 128, %i1;\nld.param.u32 %i3, [n];\n" +
		"setp.ge.u32 %p6, %i2, %i3;\n@%p6 bra END;\n")
	load := func(k int, bytes int) {
		fmt.Fprintf(&b, "ld.param.u64 %%a%d, [p%d];\ncvta.to.global.u64 %%a%d, %%a%d;\nmad.wide.u32 %%a%d, %%i2, %d, %%a%d;\n", k, k, k, k,
			k, bytes, k)
	}
	args := ""
	for k, t := range in.in {
		f := forms[t]
		load(k, f.bytes)
		if t == "pred" {
			fmt.Fprintf(&b, "ld.global.u32 %%r%d, [%%a%d];\nsetp.ne.u32 %%p%d, %%r%d, 0;\n", k, k, k, k)
		} else {
			fmt.Fprintf(&b, "ld.global.%s %s%d, [%%a%d];\n", f.mem, f.reg, k, k)
		}
		args += fmt.Sprintf(", %s%d", f.reg, k)
	}
	f := forms[in.out]
	load(3, f.bytes)
	fmt.Fprintf(&b, "%s %s3%s;\n", in.name, f.reg, args)
	if in.out == "pred" {
		b.WriteString("selp.b32 %r3, 1, 0, %p3;\nst.global.u32 [%a3], %r3;\n")
	} else {
		fmt.Fprintf(&b, "st.global.%s [%%a3], %s3;\n", f.mem, f.reg)
	}
	b.WriteString("END:\nret;\n}\n")
	return b.String()
}

// edges returns the bits of values of a type at which instructions differ, and a few others.
func edges(t string) []uint64 {
	r := rand.New(rand.NewPCG(3, 5))
	floats := []float64{0, 0.5, 1, 1.5, 2, 2.5, 3, 1.0 / 3, math.Pi, 0.1, 1e-3, 1e-10, 1e-20, 88.72, 103.97, 126, 127.5, 149.5, 0.9999999,
		1.0000001, 8388607.5, 16777215, 16777217, 2147483520, 2147483647, 2147483648, 4294967040, 4294967296, 9.2e18, 1.8446744e19, 1e20,
		65504, 65519.9, 65520, 6.1e-5, 5.9e-8, 2.9e-8, 1e-38, 1.1754944e-38, 1.17549421e-38, 1.4e-45, 3e-45, 7e-46, 3.4028235e38,
		3.40282357e38, 1e300, 2.3e-308, 5e-324, math.MaxFloat64, math.Inf(1)}
	var out []uint64
	switch t {
	case "f32":
		for _, x := range floats {
			out = append(out, uint64(math.Float32bits(float32(x))), uint64(math.Float32bits(float32(-x))))
		}
		out = append(out, 0x7fc00000, 0xffc00001, 0x7f800001, 0x3f801000, 0x3f801001, 0x3f803000, 0x3f808000, 0x3f818000)
		for range 16 {
			out = append(out, uint64(r.Uint32()))
		}
	case "f64":
		for _, x := range floats {
			out = append(out, math.Float64bits(x), math.Float64bits(-x))
		}
		out = append(out, 0x7ff8000000000000, 0x7ff0000000000001, 0x3ff0000010000000, 0x3ff0000030000000, 0x3ff0000010000001)
		for range 16 {
			out = append(out, r.Uint64())
		}
	case "b16":
		for x := range uint64(1 << 16) {
			out = append(out, x)
		}
	case "pred":
		return []uint64{0, 1}
	default:
		for _, x := range []int64{0, 1, 2, 3, 5, 31, 32, 33, 63, 64, 65, 100, 255, 65535, 65536, 1 << 24, 1<<24 + 1, 1<<31 - 1, 1 << 31, 1<<32 - 1,
			1 << 32, 1<<53 + 1, 1<<63 - 1} {
			out = append(out, uint64(x), uint64(-x))
		}
		out = append(out, 1<<63)
		for range 8 {
			out = append(out, r.Uint64())
		}
	}
	return out
}

// operands returns the operands of all applications: all tuples of edges, or some of them where these are many.
func (in instruction) operands() (args [][]byte, n int) {
	const most = 20000
	lists, all := make([][]uint64, len(in.in)), 1
	for k, t := range in.in {
		lists[k] = edges(t)
		all *= len(lists[k])
	}
	step := 1
	if all > most && len(in.in) > 1 {
		step = all/most*2 + 1
	}
	args = make([][]byte, len(in.in))
	for i := 0; i < all; i += step {
		var tuple [3]uint64
		rest := i
		for k, l := range lists {
			tuple[k], rest = l[rest%len(l)], rest/len(l)
		}
		if in.undefined(tuple) {
			continue
		}
		for k, t := range in.in {
			args[k] = put(args[k], forms[t].bytes, tuple[k])
		}
		n++
	}
	return args, n
}

// undefined reports whether the standard leaves the result undefined: quotients of integers by 0, and of the minimum
// by -1.
func (in instruction) undefined(x [3]uint64) bool {
	if in.out[0] != 'b' || !strings.HasPrefix(in.name, "div.") && !strings.HasPrefix(in.name, "rem.") {
		return false
	}
	if in.out == "b32" {
		return uint32(x[1]) == 0 || uint32(x[0]) == 1<<31 && uint32(x[1]) == math.MaxUint32
	}
	return x[1] == 0 || x[0] == 1<<63 && x[1] == math.MaxUint64
}

func put(b []byte, bytes int, x uint64) []byte {
	switch bytes {
	case 2:
		return binary.LittleEndian.AppendUint16(b, uint16(x))
	case 4:
		return binary.LittleEndian.AppendUint32(b, uint32(x))
	}
	return binary.LittleEndian.AppendUint64(b, x)
}

func get(b []byte, bytes, i int) uint64 {
	switch b = b[bytes*i:]; bytes {
	case 2:
		return uint64(binary.LittleEndian.Uint16(b))
	case 4:
		return uint64(binary.LittleEndian.Uint32(b))
	}
	return binary.LittleEndian.Uint64(b)
}

// card runs kernels.
type card struct {
	t      testing.TB
	drv    driver.Driver
	pool   driver.Pool
	stream driver.Stream
}

func newCard(t testing.TB, drv driver.Driver) *card {
	t.Helper()
	c := &card{t: t, drv: drv}
	c.must(drv.Init())
	ctx, err := drv.RetainContext(0)
	c.must(err)
	c.must(drv.SetContext(ctx))
	c.pool, err = drv.CreatePool(0, 0)
	c.must(err)
	c.stream, err = drv.CreateStream()
	c.must(err)
	t.Cleanup(func() {
		c.must(drv.DestroyStream(c.stream))
		c.must(drv.DestroyPool(c.pool))
		c.must(drv.ReleaseContext(0))
	})
	return c
}

// toCompare returns the card that is compared with the emulator.
func toCompare(t testing.TB) *card {
	t.Helper()
	if v := os.Getenv("ESSMC_CUDA"); v == "" || v == "emulate" {
		return newCard(t, emu.New(emu.Options{Seed: 7}))
	}
	drv, err := libcuda.Open()
	if err != nil {
		t.Fatal(err)
	}
	return newCard(t, drv)
}

func (c *card) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// run launches a kernel on copies of in and a result of bytes bytes, which is 0 at first, and returns that.
func (c *card) run(text, name string, grid, block uint32, in [][]byte, bytes int, more []byte) []byte {
	c.t.Helper()
	mod, log, err := c.drv.LoadModule(append([]byte(text), 0))
	if err != nil {
		c.t.Fatalf("%v %s\n%s", err, log, text)
	}
	f, err := c.drv.GetFunction(mod, name)
	c.must(err)
	var params []byte
	var all []driver.Ptr
	alloc := func(n int) driver.Ptr {
		p, err := c.drv.AllocFromPool(c.pool, uint64(max(n, 1)), c.stream)
		c.must(err)
		all, params = append(all, p), binary.LittleEndian.AppendUint64(params, uint64(p))
		return p
	}
	for _, b := range in {
		p := alloc(len(b))
		if len(b) > 0 {
			c.must(c.drv.CopyToDevice(p, b, c.stream))
		}
	}
	y := alloc(bytes)
	c.must(c.drv.Fill(y, 0, uint64(bytes), c.stream))
	c.must(c.drv.Launch(driver.Launch{Func: f, Grid: driver.Dim{X: grid, Y: 1, Z: 1}, Block: driver.Dim{X: block, Y: 1, Z: 1},
		Stream: c.stream, Params: append(params, more...)}))
	out := make([]byte, bytes)
	c.must(c.drv.CopyToHost(out, y, c.stream))
	c.must(c.drv.Synchronize(c.stream))
	for _, p := range all {
		c.must(c.drv.Free(p, c.stream))
	}
	c.must(c.drv.Synchronize(c.stream))
	c.must(c.drv.UnloadModule(mod))
	return out
}

// TestInstructions compares each instruction. Answers must be bitwise the same, but for which NaN, and within the bounds of
// approximate ones.
func TestInstructions(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, b := newCard(t, emu.New(emu.Options{})), toCompare(t)
	for _, in := range instructions {
		args, n := in.operands()
		for len(args) < 3 {
			args = append(args, nil)
		}
		size := forms[in.out].bytes
		more := binary.LittleEndian.AppendUint32(nil, uint32(n))
		apply := func(c *card) []byte {
			return c.run(in.code(), "apply", uint32(n+127)/128, 128, args, n*size, more)
		}
		want, got := apply(a), apply(b)
		bad := 0
		for i := range n {
			x, y := get(want, size, i), get(got, size, i)
			if x == y || in.near(x, y) {
				continue
			}
			if bad++; bad <= 3 {
				var of []string
				for k, t := range in.in {
					of = append(of, fmt.Sprintf("%#x", get(args[k], forms[t].bytes, i)))
				}
				t.Errorf("%s of %s: the card says %#x, the emulator %#x", in.name, strings.Join(of, ", "), y, x)
			}
		}
		if bad > 3 {
			t.Errorf("%s: %d of %d answers differ", in.name, bad, n)
		}
	}
}

// near reports whether answers that differ agree.
func (in instruction) near(x, y uint64) bool {
	var a, b float64
	switch {
	case in.out == "f32":
		a, b = float64(math.Float32frombits(uint32(x))), float64(math.Float32frombits(uint32(y)))
	case in.out == "f64":
		a, b = math.Float64frombits(x), math.Float64frombits(y)
	case strings.Contains(in.name, ".bf16.") || strings.Contains(in.name, ".tf32."):
		up := uint64(16)
		if strings.Contains(in.name, ".tf32.") {
			up = 0
		}
		a, b = float64(math.Float32frombits(uint32(x<<up))), float64(math.Float32frombits(uint32(y<<up)))
		return a != a && b != b
	case strings.Contains(in.name, ".f16."):
		return x&0x7fff > 0x7c00 && y&0x7fff > 0x7c00
	case strings.Contains(in.name, ".bf16x2."):
		for range 2 {
			if x&0xffff != y&0xffff && (x&0x7fff <= 0x7f80 || y&0x7fff <= 0x7f80) {
				return false
			}
			x, y = x>>16, y>>16
		}
		return true
	default:
		return false
	}
	if a != a && b != b {
		return true
	}
	e, ok := bounds[in.name]
	return ok && math.Abs(a-b) <= e[0]*0x1p-23*math.Abs(a)+e[1]+0x1p-147
}

// TestAllInstructions checks that each instruction which package ptx computes with is compared.
func TestAllInstructions(t *testing.T) {
	known := map[string]bool{}
	for _, in := range instructions {
		known[in.name] = true
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "ptx", "*.go"))
	if err != nil || len(files) == 0 {
		t.Skip("the sources of package ptx are not there")
	}
	n := 0
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`compute\(\w+, "([^"]*)"`).FindAllStringSubmatch(string(text), -1) {
			if n++; !known[m[1]] && !others.MatchString(m[1]) {
				t.Errorf("%s: no comparison of %s", filepath.Base(f), m[1])
			}
		}
	}
	if n < 100 {
		t.Errorf("found %d instructions in package ptx", n)
	}
}

// TestAssemble gives all kernels to NVIDIA's assembler.
func TestAssemble(t *testing.T) {
	a, err := ptxas.Find()
	if err != nil {
		t.Skip(err)
	}
	var all strings.Builder
	for i, in := range instructions {
		text := strings.Replace(in.code(), ".entry apply(", fmt.Sprintf(".entry apply%d(", i), 1)
		if i > 0 {
			text = text[strings.Index(text, ".visible"):]
		}
		all.WriteString(text)
	}
	if _, err := a.Assemble(all.String(), ptxas.Archs[0]); err != nil {
		t.Errorf("%v", err)
	}
}

// products is a kernel in which each warp multiplies matrices whose fragments are stored one after the other, lane
// by lane.
func products(mma func(k *ptx.Kernel, d [4]ptx.F32, a [4]ptx.U32, b [2]ptx.U32)) *kernel.Code {
	return kernel.New("products", 32, func(k *ptx.Kernel) {
		pa, pb, pc, y := k.PtrParam("a"), k.PtrParam("b"), k.PtrParam("c"), k.PtrParam("y")
		i := k.BlockX().MAD(ptx.U(32), k.Lane())
		x, z := pa.Index(i, 16).LoadU32s(0, 4), pb.Index(i, 8).LoadU32s(0, 2)
		var d [4]ptx.F32
		for j, v := range pc.Index(i, 16).LoadF32s(0, 4) {
			d[j] = k.VarF32(v)
		}
		mma(k, d, [4]ptx.U32(x), [2]ptx.U32(z))
		y.Index(i, 16).StoreF32s(0, d[:]...)
	})
}

// fit compares products on a card with emulated ones, and returns the models that differ least, and the share of
// their answers that differ.
func fit(t *testing.T, b *card, code *kernel.Code, in [][]byte, warps int) (models []string, differ float64) {
	t.Helper()
	bytes := warps * 32 * 16
	got := b.run(code.Text, code.Name, uint32(warps), 32, in, bytes, nil)
	least := math.MaxInt
	for _, extra := range []int{-1, 1, 2, 3} {
		for _, block := range []int{4, 8, 16} {
			a := newCard(t, emu.New(emu.Options{MatrixBits: extra, MatrixBlock: block}))
			want := a.run(code.Text, code.Name, uint32(warps), 32, in, bytes, nil)
			n := 0
			for i := range bytes / 4 {
				if get(got, 4, i) != get(want, 4, i) {
					n++
				}
			}
			name := fmt.Sprintf("%d more bits, blocks of %d", max(extra, 0), block)
			switch {
			case n < least:
				least, models = n, []string{name}
			case n == least:
				models = append(models, name)
			}
		}
	}
	return models, float64(least) / float64(bytes/4)
}

// TestProducts reports which model of tensor cores fits the card. All answers must equal the model's.
func TestProducts(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	const warps = 16
	r := rand.New(rand.NewPCG(1, 9))
	number := func(width int) uint32 {
		x := math.Float32bits(float32(r.NormFloat64() * math.Ldexp(1, r.IntN(12)-6)))
		switch width {
		case 32:
			return x &^ 0x1fff
		case 16:
			return x >> 16
		}
		return (x>>31<<15 | (x&0x7fffffff-112<<23)>>13&0x7fff) // float16, of numbers in its range
	}
	for _, c := range []struct {
		name  string
		width int
		mma   func(k *ptx.Kernel, d [4]ptx.F32, a [4]ptx.U32, b [2]ptx.U32)
	}{{"TF32", 32, (*ptx.Kernel).MMATF32}, {"bfloat16", 16, (*ptx.Kernel).MMABF16}, {"float16", 15, (*ptx.Kernel).MMAF16}} {
		in := make([][]byte, 3)
		for k, regs := range []int{4, 2, 4} {
			for range warps * 32 * regs {
				x := uint64(number(c.width))
				if c.width < 32 {
					x |= uint64(number(c.width)) << 16
				}
				if k == 2 {
					x = uint64(math.Float32bits(float32(r.NormFloat64() * math.Ldexp(1, r.IntN(12)-6))))
				}
				in[k] = put(in[k], 4, x)
			}
		}
		code := products(c.mma)
		models, differ := fit(t, toCompare(t), code, in, warps)
		t.Logf("%s: %s: %.2g%% of the answers differ", c.name, strings.Join(models, "; "), 100*differ)
		if differ > 0 {
			t.Errorf("%s: no model of the emulator gives the card's answers", c.name)
		}
		// The comparison distinguishes models.
		other := newCard(t, emu.New(emu.Options{MatrixBits: 3, MatrixBlock: 8}))
		if models, differ := fit(t, other, code, in, warps); differ > 0 || models[0] != "3 more bits, blocks of 8" {
			t.Errorf("%s: a card of 3 more bits and blocks of 8 is taken for %v", c.name, models)
		}
	}
}
