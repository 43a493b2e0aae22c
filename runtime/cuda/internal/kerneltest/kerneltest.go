// Package kerneltest runs kernels of the CUDA backend on the emulator, for tests of package kernel.
//
// A Bench is an emulated card with buffers. Any finding of the emulator fails the test.
//
// The package imports runtime/cuda/driver, runtime/cuda/emu, runtime/cuda/kernel and the package ptxas beside it.
// Only tests import it.
package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/cuda/internal/ptxas"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

// Bench is an emulated card with buffers. In the long mode (ESSMC_LONG=1) each Run is repeated on cards with other
// seeds, and their buffers must then have the same bytes.
type Bench struct {
	t     testing.TB
	cards []*card
	sizes []int // of buffers, in bytes
}

type card struct {
	drv     *emu.Driver
	seed    uint64
	context driver.Context
	stream  driver.Stream
	pool    driver.Pool
	modules map[string]driver.Module
	ptrs    []driver.Ptr
	found   int // number of findings already reported
}

// New returns an empty bench. With the race detector and -short, it skips t.
func New(t testing.TB) *Bench {
	t.Helper()
	if race.Enabled && testing.Short() {
		t.Skip("kernels run on one goroutine of the emulator, ten times as long under the race detector")
	}
	b := &Bench{t: t}
	seeds := 1
	if os.Getenv("ESSMC_LONG") != "" {
		seeds = 4
	}
	for i := range seeds {
		c := &card{drv: emu.New(emu.Options{Seed: uint64(i)}), seed: uint64(i), modules: map[string]driver.Module{}}
		b.cards = append(b.cards, c)
		b.must(c.drv.Init())
		var err error
		c.context, err = c.drv.RetainContext(0)
		b.must(err)
		b.must(c.drv.SetContext(c.context))
		c.stream, err = c.drv.CreateStream()
		b.must(err)
		c.pool, err = c.drv.CreatePool(0, 0)
		b.must(err)
	}
	t.Cleanup(b.close)
	return b
}

func (b *Bench) must(err error) {
	b.t.Helper()
	if err != nil {
		b.report()
		b.t.Fatal(err)
	}
}

// report reports new findings.
func (b *Bench) report() {
	b.t.Helper()
	for _, c := range b.cards {
		all := c.drv.Findings()
		for _, f := range all[c.found:] {
			b.t.Errorf("seed %d: %v", c.seed, f)
		}
		c.found = len(all)
	}
}

func (b *Bench) close() {
	for _, c := range b.cards {
		for _, p := range c.ptrs {
			c.drv.Free(p, c.stream)
		}
		c.drv.Synchronize(c.stream)
		c.drv.DestroyStream(c.stream)
		c.drv.DestroyPool(c.pool)
		for _, m := range c.modules {
			c.drv.UnloadModule(m)
		}
		c.drv.ReleaseContext(0)
		c.drv.Close()
	}
	b.report()
}

// Out creates a buffer of the given size with undefined content.
func (b *Bench) Out(bytes int) kernel.Buffer {
	b.t.Helper()
	b.sizes = append(b.sizes, bytes)
	for _, c := range b.cards {
		p, err := c.drv.AllocFromPool(c.pool, uint64(max(bytes, 1)), c.stream)
		b.must(err)
		c.ptrs = append(c.ptrs, p)
	}
	return kernel.Buffer(len(b.sizes))
}

// In creates a buffer of numbers: []float32, []float64, []int32, []uint32, []int64, []uint64, []uint16, []int8,
// []byte or []bool.
func (b *Bench) In(data any) kernel.Buffer {
	b.t.Helper()
	buf := b.Out(binary.Size(data))
	b.Set(buf, data)
	return buf
}

// Set writes numbers to the start of a buffer.
func (b *Bench) Set(buf kernel.Buffer, data any) {
	b.t.Helper()
	raw, err := binary.Append(nil, binary.LittleEndian, data)
	if err != nil {
		b.t.Fatalf("a buffer of %T: %v", data, err)
	}
	for _, c := range b.cards {
		b.must(c.drv.CopyToDevice(b.address(c, buf), raw, c.stream))
		b.must(c.drv.Synchronize(c.stream))
	}
}

// Address returns the address of a buffer, which is the same on all cards of the bench.
func (b *Bench) Address(buf kernel.Buffer) uint64 {
	b.t.Helper()
	first := b.address(b.cards[0], buf)
	for _, c := range b.cards[1:] {
		if b.address(c, buf) != first {
			b.t.Fatal("a buffer has other addresses on other cards")
		}
	}
	return uint64(first)
}

func (b *Bench) address(c *card, buf kernel.Buffer) driver.Ptr { return c.ptrs[buf-1] }

// Run launches calls in order, and waits for them.
func (b *Bench) Run(calls ...kernel.Call) {
	b.t.Helper()
	for _, c := range b.cards {
		for i := range calls {
			b.must(c.launch(&calls[i], func(buf kernel.Buffer) driver.Ptr { return b.address(c, buf) }))
		}
		b.must(c.drv.Synchronize(c.stream))
	}
	b.report()
}

func (c *card) launch(call *kernel.Call, address func(kernel.Buffer) driver.Ptr) error {
	code := call.Code
	m, ok := c.modules[code.Text]
	if !ok {
		var err error
		if m, _, err = c.drv.LoadModule(append([]byte(code.Text), 0)); err != nil {
			return fmt.Errorf("%w\n%s", err, numbered(code.Text))
		}
		c.modules[code.Text] = m
	}
	f, err := c.drv.GetFunction(m, code.Name)
	if err != nil {
		return err
	}
	if code.Dynamic > 0 {
		if err := c.drv.SetFunctionAttribute(f, driver.SharedBytes, code.Dynamic); err != nil {
			return err
		}
	}
	return c.drv.Launch(call.Launch(f, c.stream, address))
}

func numbered(text string) string {
	var s strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		fmt.Fprintf(&s, "%4d  %s", n, line)
	}
	return s.String()
}

// Bytes returns the content of a buffer.
func (b *Bench) Bytes(buf kernel.Buffer) []byte {
	b.t.Helper()
	var first []byte
	for _, c := range b.cards {
		got := make([]byte, b.sizes[buf-1])
		b.must(c.drv.CopyToHost(got, b.address(c, buf), c.stream))
		b.must(c.drv.Synchronize(c.stream))
		if first == nil {
			first = got
			continue
		}
		for i := range got {
			if got[i] != first[i] {
				b.t.Errorf("byte %d of a buffer of %d is %#x with seed %d, and %#x with seed %d", i, len(got), got[i], c.seed,
					first[i], b.cards[0].seed)
				break
			}
		}
	}
	b.report()
	return first
}

func read[T any](b *Bench, buf kernel.Buffer, size int, one func([]byte) T) []T {
	b.t.Helper()
	raw := b.Bytes(buf)
	out := make([]T, len(raw)/size)
	for i := range out {
		out[i] = one(raw[i*size:])
	}
	return out
}

// Float32s returns the content of a buffer.
func (b *Bench) Float32s(buf kernel.Buffer) []float32 {
	b.t.Helper()
	return read(b, buf, 4, func(x []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(x)) })
}

// Float64s returns the content of a buffer.
func (b *Bench) Float64s(buf kernel.Buffer) []float64 {
	b.t.Helper()
	return read(b, buf, 8, func(x []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(x)) })
}

// Int32s returns the content of a buffer.
func (b *Bench) Int32s(buf kernel.Buffer) []int32 {
	b.t.Helper()
	return read(b, buf, 4, func(x []byte) int32 { return int32(binary.LittleEndian.Uint32(x)) })
}

// Int64s returns the content of a buffer.
func (b *Bench) Int64s(buf kernel.Buffer) []int64 {
	b.t.Helper()
	return read(b, buf, 8, func(x []byte) int64 { return int64(binary.LittleEndian.Uint64(x)) })
}

// Uint16s returns the content of a buffer.
func (b *Bench) Uint16s(buf kernel.Buffer) []uint16 {
	b.t.Helper()
	return read(b, buf, 2, binary.LittleEndian.Uint16)
}

// Counters returns the counts of all kernels since the last reset, on the card with the first seed.
func (b *Bench) Counters() emu.Counters { return b.cards[0].drv.Counters() }

// ResetCounters sets the counters to zero.
func (b *Bench) ResetCounters() { b.cards[0].drv.ResetCounters() }

// Assemble assembles a kernel by NVIDIA's ptxas for each architecture, logs the resources that it uses, and fails t
// if registers are spilled. It skips the test if there is no ptxas.
func Assemble(t testing.TB, code *kernel.Code) {
	t.Helper()
	a, err := ptxas.Find()
	if err != nil {
		t.Skip(err)
	}
	for _, arch := range ptxas.Archs {
		reports, err := a.Assemble(code.Text, arch)
		if err != nil {
			t.Fatalf("kernel %s: %v\n%s", code.Name, err, numbered(code.Text))
		}
		for _, r := range reports {
			if t.Log(r); r.Spills() {
				t.Errorf("kernel %s on %s spills registers", r.Kernel, arch)
			}
		}
	}
}
