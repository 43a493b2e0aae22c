package emu

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
)

// bench is a driver with a stream and a pool.
type bench struct {
	t      testing.TB
	d      *Driver
	stream driver.Stream
	pool   driver.Pool
	ptrs   []driver.Ptr
	mods   []driver.Module
}

func newBench(t testing.TB, o Options) *bench {
	t.Helper()
	b := &bench{t: t, d: New(o)}
	must(t, b.d.Init())
	c, err := b.d.RetainContext(0)
	must(t, err)
	must(t, b.d.SetContext(c))
	b.stream, err = b.d.CreateStream()
	must(t, err)
	b.pool, err = b.d.CreatePool(0, 0)
	must(t, err)
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (b *bench) alloc(bytes int) driver.Ptr {
	b.t.Helper()
	p, err := b.d.AllocFromPool(b.pool, uint64(bytes), b.stream)
	must(b.t, err)
	b.ptrs = append(b.ptrs, p)
	return p
}

func (b *bench) upload(data []byte) driver.Ptr {
	b.t.Helper()
	p := b.alloc(len(data))
	must(b.t, b.d.CopyToDevice(p, data, b.stream))
	must(b.t, b.d.Synchronize(b.stream))
	return p
}

func (b *bench) download(p driver.Ptr, bytes int) []byte {
	b.t.Helper()
	out := make([]byte, bytes)
	must(b.t, b.d.CopyToHost(out, p, b.stream))
	must(b.t, b.d.Synchronize(b.stream))
	return out
}

// load compiles text of one kernel, named k.
func (b *bench) load(text string) driver.Function {
	b.t.Helper()
	m, _, err := b.d.LoadModule([]byte(text + "\x00"))
	if err != nil {
		b.t.Fatalf("%v\n%s", err, text)
	}
	b.mods = append(b.mods, m)
	f, err := b.d.GetFunction(m, "k")
	must(b.t, err)
	return f
}

func params(x ...driver.Ptr) []byte {
	var out []byte
	for _, p := range x {
		out = binary.LittleEndian.AppendUint64(out, uint64(p))
	}
	return out
}

// launch runs a kernel and returns the error of its work.
func (b *bench) launch(f driver.Function, grid, block int, x ...driver.Ptr) error {
	b.t.Helper()
	must(b.t, b.d.Launch(driver.Launch{Func: f, Grid: driver.Dim{X: uint32(grid), Y: 1, Z: 1},
		Block: driver.Dim{X: uint32(block), Y: 1, Z: 1}, Stream: b.stream, Params: params(x...)}))
	return b.d.Synchronize(b.stream)
}

// close frees everything, and returns the findings.
func (b *bench) close() []Finding {
	for _, p := range b.ptrs {
		b.d.Free(p, b.stream)
	}
	b.d.Synchronize(b.stream)
	b.d.DestroyStream(b.stream)
	b.d.DestroyPool(b.pool)
	for _, m := range b.mods {
		b.d.UnloadModule(m)
	}
	b.d.ReleaseContext(0)
	return b.d.Close()
}

// clean closes, and fails the test on any finding.
func (b *bench) clean() {
	b.t.Helper()
	for _, f := range b.close() {
		b.t.Error(f)
	}
}

const header = ".version 7.0\n.target sm_80\n.address_size 64\n"

// kernelText is a kernel k with pointers p0, p1, … in %rd0, %rd1, …, its thread in %r0, and body.
func kernelText(pointers int, body string) string {
	var s strings.Builder
	s.WriteString(header + ".visible .entry k(")
	for i := range pointers {
		fmt.Fprintf(&s, "%s.param .u64 p%d", map[bool]string{true: ", "}[i > 0], i)
	}
	s.WriteString(")\n{\n.reg .pred %p<8>;\n.reg .b16 %h<8>;\n.reg .b32 %r<32>;\n.reg .f32 %f<16>;\n.reg .b64 %rd<32>;\n" +
		".reg .f64 %fd<16>;\n")
	for i := range pointers {
		fmt.Fprintf(&s, "ld.param.u64 %%rd%d, [p%d];\n", i, i)
	}
	return s.String() + "mov.u32 %r0, %tid.x;\n" + body + "\nret;\n}\n"
}
