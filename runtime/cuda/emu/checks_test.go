package emu_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/driver"
	"github.com/essmc/essmc/runtime/cuda/emu"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// machine is a card with a stream.
type machine struct {
	t      testing.TB
	drv    *emu.Driver
	pool   driver.Pool
	stream driver.Stream
}

func newMachine(t testing.TB, o emu.Options) *machine {
	t.Helper()
	m := &machine{t: t, drv: emu.New(o)}
	m.must(m.drv.Init())
	c, err := m.drv.RetainContext(0)
	m.must(err)
	m.must(m.drv.SetContext(c))
	m.pool, err = m.drv.CreatePool(0, 0)
	m.must(err)
	m.stream, err = m.drv.CreateStream()
	m.must(err)
	return m
}

func (m *machine) must(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

// memory allocates bytes bytes; they hold 0 if zero is set, and otherwise nothing.
func (m *machine) memory(bytes int, zero bool) driver.Ptr {
	m.t.Helper()
	p, err := m.drv.AllocFromPool(m.pool, uint64(bytes), m.stream)
	m.must(err)
	if zero {
		m.must(m.drv.Fill(p, 0, uint64(bytes), m.stream))
	}
	return p
}

// run launches a kernel and returns the error of it.
func (m *machine) run(code *kernel.Code, blocks int, args ...driver.Ptr) error {
	m.t.Helper()
	mod, log, err := m.drv.LoadModule(append([]byte(code.Text), 0))
	if err != nil {
		m.t.Fatal(err, log, code.Text)
	}
	f, err := m.drv.GetFunction(mod, code.Name)
	m.must(err)
	var list []kernel.Arg
	for i := range args {
		list = append(list, kernel.Ptr(kernel.Buffer(i+1)))
	}
	call := kernel.NewCall(code, driver.Dim{X: uint32(blocks), Y: 1, Z: 1}, list...)
	m.must(m.drv.Launch(call.Launch(f, m.stream, func(b kernel.Buffer) driver.Ptr { return args[b-1] })))
	return m.drv.Synchronize(m.stream)
}

// faults are kernels with a planted fault, and without it. They take two buffers: x, of 4 kB, initialised, and y, of 4 kB, not.
var faults = []struct {
	name    string
	threads int
	blocks  int
	want    string // in the finding
	build   func(k *ptx.Kernel, x, y ptx.Addr, bad bool)
}{
	{"read beyond the end", 64, 1, "out of bounds", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		x.Index(k.ThreadX(), 4).LoadF32(pick(bad, 4096-4, 0))
	}},
	{"write before the start", 32, 1, "out of bounds", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		y.Index(k.ThreadX(), 4).StoreF32(pick(bad, -4, 0), ptx.F(1))
	}},
	{"shared memory beyond the end", 64, 1, "out of bounds", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		k.SharedArray(pick(bad, 252, 256), 4).Index(k.ThreadX(), 4).StoreF32(0, ptx.F(1))
	}},
	{"misaligned", 1, 1, "not aligned", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) { x.LoadF32s(pick(bad, 8, 16), 4) }},
	{"read of global memory that nobody wrote", 32, 1, "nobody wrote", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		at := y.Index(k.ThreadX(), 4)
		if !bad {
			at.StoreF32(0, ptx.F(1))
		}
		at.LoadF32(0)
	}},
	{"a byte that nobody wrote", 1, 1, "nobody wrote", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		for i := range pick(bad, 3, 4) {
			y.StoreU8(i, k.ThreadX())
		}
		y.LoadU32(0)
	}},
	{"read of shared memory that another block wrote", 32, 9, "nobody wrote", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(128, 4).Index(k.ThreadX(), 4)
		p := k.BlockX().Eq(ptx.U(0))
		if !bad {
			p = k.BlockX().Ge(ptx.U(0))
		}
		k.If(p, func() { s.StoreF32(0, ptx.F(1)) })
		s.LoadF32(0)
	}},
	{"race between warps: read after write", 64, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(256, 4)
		s.Index(k.ThreadX(), 4).StoreF32(0, ptx.F(1))
		if bad {
			k.SyncWarp()
		} else {
			k.Barrier()
		}
		s.Index(k.ThreadX().Xor(ptx.U(32)), 4).LoadF32(0)
	}},
	{"race between warps: write after read", 64, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(256, 4)
		s.Index(k.ThreadX(), 4).StoreF32(0, ptx.F(1))
		k.Barrier()
		v := s.Index(k.ThreadX().Xor(ptx.U(32)), 4).LoadF32(0)
		if !bad {
			k.Barrier()
		}
		s.Index(k.ThreadX(), 4).StoreF32(0, v)
	}},
	{"race in a warp: shuffles give no order", 32, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(128, 4)
		s.Index(k.Lane(), 4).StoreF32(0, ptx.F(1))
		if bad {
			k.Lane().ShuffleXor(ptx.U(1))
		} else {
			k.SyncWarp()
		}
		s.Index(k.Lane().Xor(ptx.U(1)), 4).LoadF32(0)
	}},
	{"race of lanes that write the same", 32, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		put := func() { y.StoreF32(0, ptx.F(1)) }
		if bad {
			put()
		} else {
			k.If(k.Lane().Eq(ptx.U(0)), put)
		}
	}},
	{"race of blocks on global memory", 32, 2, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		at := k.BlockX().MAD(ptx.U(pick(bad, 31, 32)), k.ThreadX())
		y.Index(at, 4).StoreF32(0, ptx.F(1))
	}},
	{"race of a block that writes what others read", 32, 5, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		x.Index(k.ThreadX(), 4).LoadF32(0)
		k.If(k.BlockX().Eq(ptx.U(2)), func() { x.Index(k.ThreadX(), 4).StoreF32(pick(bad, 0, 128), ptx.F(1)) })
	}},
	{"a last block without a fence before its atomic", 64, 3, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		lastBlock(k, x, y, !bad, true, true)
	}},
	{"a last block without a fence behind its atomic", 64, 3, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		lastBlock(k, x, y, true, !bad, true)
	}},
	{"a last block without a barrier before its atomic", 64, 3, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		lastBlock(k, x, y, true, true, !bad)
	}},
	{"race on global memory in a block", 64, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		y.Index(k.ThreadX(), 4).StoreF32(0, ptx.F(1))
		if !bad {
			k.Barrier()
		}
		y.Index(k.ThreadX().Xor(ptx.U(63)), 4).LoadF32(0)
	}},
	{"race of bytes", 64, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		i := k.ThreadX()
		if bad {
			i = i.Shr(ptx.U(1))
		}
		y.Add(i.MulWide(ptx.U(1))).StoreU8(0, i)
	}},
	{"a plain read beside atomics", 64, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		x.StoreU32(0, atomically)
		if !bad {
			k.Barrier()
		}
		x.LoadU32(0)
	}},
	{"a loop without its second barrier", 64, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(256, 4)
		k.For(ptx.U(0), ptx.U(3), ptx.U(1), func(i ptx.U32) {
			s.Index(k.ThreadX(), 4).StoreU32(0, i)
			k.Barrier()
			s.Index(k.ThreadX().Xor(ptx.U(33)), 4).LoadU32(0)
			if !bad {
				k.Barrier()
			}
		})
	}},
	{"a barrier in divergent code", 64, 1, "divergent", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		k.If(k.ThreadX().Lt(ptx.U(pick(bad, 5, 64))), k.Barrier)
	}},
	{"a barrier after threads have ended", 64, 1, "divergent", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		k.If(k.ThreadX().Ge(ptx.U(pick(bad, 40, 64))), k.Return)
		k.Barrier()
	}},
	{"a shuffle without all lanes", 32, 1, "take part", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		k.If(k.Lane().Lt(ptx.U(pick(bad, 31, 32))), func() { k.Lane().ShuffleXor(ptx.U(1)) })
	}},
	{"a vote without all lanes", 32, 1, "take part", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		k.If(k.Lane().Lt(ptx.U(pick(bad, 31, 32))), func() { k.Lane().Eq(ptx.U(1)).Any() })
	}},
	{"bar.warp.sync without all lanes", 32, 1, "take part", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		k.If(k.Lane().Lt(ptx.U(pick(bad, 31, 32))), k.SyncWarp)
	}},
	{"a copy read before it is waited for", 32, 1, "not waited for", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(128, 16).Index(k.Lane(), 4)
		s.CopyAsync(x.Index(k.Lane(), 4), 4)
		k.CommitCopies()
		if !bad {
			k.WaitCopies(0)
		}
		s.LoadF32(0)
	}},
	{"a copy waited for as another group", 32, 1, "not waited for", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(256, 16).Index(k.Lane(), 4)
		for i := range 2 {
			s.Add(ptx.U(128*i)).CopyAsync(x.Index(k.Lane(), 4), 4)
			k.CommitCopies()
		}
		k.WaitCopies(1)
		s.LoadF32(pick(bad, 128, 0))
	}},
	{"a copy read by another thread without a barrier", 64, 1, "race", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		s := k.SharedArray(256, 16)
		s.Index(k.ThreadX(), 4).CopyAsync(x.Index(k.ThreadX(), 4), 4)
		k.CommitCopies()
		k.WaitCopies(0)
		if !bad {
			k.Barrier()
		}
		s.Index(k.ThreadX().Xor(ptx.U(63)), 4).LoadF32(0)
	}},
	{"a copy of memory that nobody wrote", 32, 1, "nobody wrote", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		from := x
		if bad {
			from = y
		}
		k.SharedArray(128, 16).Index(k.Lane(), 4).CopyAsync(from.Index(k.Lane(), 4), 4)
		k.WaitCopies(0)
	}},
	{"a product without all lanes", 32, 1, "take part", func(k *ptx.Kernel, x, y ptx.Addr, bad bool) {
		d := [4]ptx.F32{k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0)), k.VarF32(ptx.F(0))}
		z := k.Lane()
		k.If(k.Lane().Lt(ptx.U(pick(bad, 31, 32))), func() { k.MMATF32(d, [4]ptx.U32{z, z, z, z}, [2]ptx.U32{z, z}) })
	}},
}

// lastBlock lets the last of three blocks that comes to it read, and change, what all of them have written.
func lastBlock(k *ptx.Kernel, x, y ptx.Addr, before, behind, barrier bool) {
	last := k.SharedArray(4, 4)
	own := y.Index(k.BlockX().MAD(ptx.U(64), k.ThreadX()), 4)
	own.StoreF32(0, ptx.F(1))
	own.StoreF32(0, own.LoadF32(0))
	if barrier {
		k.Barrier()
	}
	k.If(k.ThreadX().Eq(ptx.U(0)), func() {
		if before {
			k.Fence()
		}
		n := x.Count(ptx.U(2))
		if behind {
			k.Fence()
		}
		last.StoreU32(0, n)
	})
	k.Barrier()
	k.If(last.LoadU32(0).Eq(ptx.U(2)), func() {
		for i := range 3 {
			y.Index(k.ThreadX().Xor(ptx.U(33)), 4).LoadF32(256 * i)
		}
		k.Barrier()
		y.Index(k.ThreadX(), 4).StoreF32(256, ptx.F(2))
	})
}

// atomically is stored where the test wants an atomic addition, which package ptx does not write.
var atomically = ptx.U(0x5eed)

// withAtomics puts atomic additions in the place of such stores.
func withAtomics(text string) string {
	return regexp.MustCompile(`st\.global\.u32( \[[^]]*\], 24301;)`).ReplaceAllString(text, "red.global.add.u32$1")
}

func pick(bad bool, a, b int) int {
	if bad {
		return a
	}
	return b
}

// TestFaults plants a fault of each kind, which must be found under every seed, and mends it.
func TestFaults(t *testing.T) {
	for _, f := range faults {
		t.Run(strings.ReplaceAll(f.name, " ", "_"), func(t *testing.T) {
			for seed := range uint64(4) {
				for _, bad := range []bool{true, false} {
					code := kernel.New("fault", f.threads, func(k *ptx.Kernel) {
						x, y := k.PtrParam("x"), k.PtrParam("y")
						f.build(k, x, y, bad)
					})
					code.Text = withAtomics(code.Text)
					m := newMachine(t, emu.Options{Seed: seed})
					err := m.run(code, f.blocks, m.memory(4096, true), m.memory(4096, false))
					var found []string
					for _, g := range m.drv.Findings() {
						found = append(found, g.String())
					}
					text := strings.Join(found, "\n")
					switch {
					case !bad && (text != "" || err != nil):
						t.Fatalf("seed %d: the mended kernel: %v %s\n%s", seed, err, text, code.Text)
					case bad && !strings.Contains(text, f.want):
						t.Fatalf("seed %d: expected a finding with %q, found %q", seed, f.want, text)
					case bad && (!strings.Contains(text, "kernel fault, line ") || len(found) > 20):
						t.Errorf("findings %q", found)
					}
				}
			}
		})
	}
}

// TestUseAfterFree reads memory that was freed.
func TestUseAfterFree(t *testing.T) {
	m := newMachine(t, emu.Options{})
	x := m.memory(256, true)
	m.must(m.drv.Free(x, m.stream))
	code := kernel.New("late", 1, func(k *ptx.Kernel) { k.PtrParam("x").LoadF32(0) })
	if err := m.run(code, 1, x); !driver.Is(err, driver.IllegalAddress) || !strings.Contains(fmt.Sprint(m.drv.Findings()), "free") {
		t.Errorf("found %v, %v", err, m.drv.Findings())
	}
}

// TestCopiesMove copies memory that nobody wrote, on the device, and reads it.
func TestCopiesMove(t *testing.T) {
	for _, offset := range []int{0, 4} {
		m := newMachine(t, emu.Options{})
		x, y := m.memory(1024, false), m.memory(1024, true)
		m.must(m.drv.Fill(x, 0, 512, m.stream))
		m.must(m.drv.CopyOnDevice(y+driver.Ptr(offset), x, 1020, m.stream))
		read := func(at int) *kernel.Code {
			return kernel.New("read", 1, func(k *ptx.Kernel) { k.PtrParam("x").LoadF32(at) })
		}
		m.must(m.run(read(508+offset), 1, y))
		if f := m.drv.Findings(); len(f) > 0 {
			t.Errorf("findings %v", f)
		}
		m.must(m.run(read(512+offset), 1, y))
		if f := m.drv.Findings(); len(f) != 1 || !strings.Contains(f[0].What, "nobody wrote") {
			t.Errorf("findings %v", f)
		}
	}
}

// TestUnknownToHost copies memory that was never written.
func TestUnknownToHost(t *testing.T) {
	for _, missing := range []int{-1, 0, 63, 64, 200, 255} {
		m := newMachine(t, emu.Options{})
		x := m.memory(300, false)
		for i := range 256 {
			if i != missing {
				m.must(m.drv.Fill(x+driver.Ptr(i), 0, 1, m.stream))
			}
		}
		m.must(m.drv.CopyToHost(make([]byte, 256), x, m.stream))
		m.must(m.drv.Synchronize(m.stream))
		want := 1
		if missing < 0 {
			want = 0
		}
		f := m.drv.Findings()
		if len(f) != want || want == 1 && !strings.Contains(f[0].What, fmt.Sprintf("byte %d was never written", missing)) {
			t.Errorf("byte %d: findings %v", missing, f)
		}
	}
}

// TestGuards uses memory next to guards, and in them.
func TestGuards(t *testing.T) {
	for _, at := range []int{0, 252, 255, 256, 508, 509, 512, 600, 764, 765} {
		for _, way := range []string{"kernel", "fill", "copy"} {
			m := newMachine(t, emu.Options{})
			x := m.memory(1024, true)
			m.must(m.drv.Synchronize(m.stream))
			for range 2 { // the second one is there already
				m.must(m.drv.Guard(x+512, 256))
				m.must(m.drv.Guard(x+768, 256))
				m.must(m.drv.Guard(x+256, 8))
			}
			var err error
			switch way {
			case "kernel":
				if at%4 != 0 {
					continue
				}
				err = m.run(kernel.New("read", 1, func(k *ptx.Kernel) { k.PtrParam("x").LoadF32(at) }), 1, x)
			case "fill":
				err = m.drv.Fill(x+driver.Ptr(at), 1, 4, m.stream)
			case "copy":
				err = m.drv.CopyToHost(make([]byte, 4), x+driver.Ptr(at), m.stream)
			}
			in := at+4 > 256 && at < 264 || at+4 > 512
			if in != (err != nil && strings.Contains(err.Error(), "guard")) || !in && err != nil {
				t.Errorf("%s of 4 bytes at %d: %v", way, at, err)
			}
		}
	}
}

// TestForget forgets a part of memory, in the order of a stream and of a graph.
func TestForget(t *testing.T) {
	read := kernel.New("read", 32, func(k *ptx.Kernel) { k.PtrParam("x").Index(k.Lane(), 4).LoadF32(0) })
	for _, graph := range []bool{false, true} {
		for _, c := range []struct{ from, bytes, want int }{{0, 128, 1}, {128, 512, 0}, {124, 100, 1}, {127, 1, 1}, {0, 0, 0}, {1, 1, 1}} {
			m := newMachine(t, emu.Options{})
			x := m.memory(1024, true)
			m.must(m.run(read, 1, x))
			if graph {
				m.must(m.drv.BeginCapture(m.stream))
			}
			m.must(m.drv.Forget(x+driver.Ptr(c.from), uint64(c.bytes), m.stream))
			if graph {
				g, err := m.drv.EndCapture(m.stream)
				m.must(err)
				exec, err := m.drv.Instantiate(g)
				m.must(err)
				m.must(m.run(read, 1, x))
				if f := m.drv.Findings(); len(f) > 0 {
					t.Errorf("before the graph: %v", f)
				}
				m.must(m.drv.LaunchGraph(exec, m.stream))
			}
			m.must(m.run(read, 1, x))
			if f := m.drv.Findings(); len(f) != c.want || c.want == 1 && !strings.Contains(f[0].What, "nobody wrote") {
				t.Errorf("%+v: findings %v", c, f)
			}
		}
	}
}

// TestFindingsAreBounded plants more faults than are kept.
func TestFindingsAreBounded(t *testing.T) {
	var texts []string
	for range 2 {
		m := newMachine(t, emu.Options{Seed: 3})
		code := kernel.New("many", 64, func(k *ptx.Kernel) {
			y := k.PtrParam("y")
			for i := range 50 {
				y.Index(k.ThreadX(), 4).LoadF32(256 * i % 2048)
			}
		})
		m.must(m.run(code, 3, m.memory(4096, false)))
		f := m.drv.Findings()
		if len(f) != 20 {
			t.Errorf("%d findings, expected 20", len(f))
		}
		texts = append(texts, fmt.Sprint(f))
	}
	if texts[0] != texts[1] {
		t.Errorf("equal seeds have the findings\n%s\n%s", texts[0], texts[1])
	}
}

// TestUnchecked leaves the checks out.
func TestUnchecked(t *testing.T) {
	m := newMachine(t, emu.Options{Unchecked: true})
	code := kernel.New("read", 1, func(k *ptx.Kernel) { k.PtrParam("y").LoadF32(0) })
	m.must(m.run(code, 1, m.memory(4, false)))
	if f := m.drv.Findings(); len(f) > 0 || len(m.drv.Counters().Kernels) > 0 {
		t.Errorf("found %v, %v", f, m.drv.Counters())
	}
}

// TestStreams uses memory by work of two streams, with and without something that orders them.
func TestStreams(t *testing.T) {
	write := kernel.New("write", 32, func(k *ptx.Kernel) { k.PtrParam("x").Index(k.Lane(), 4).StoreF32(0, ptx.F(1)) })
	read := kernel.New("read", 32, func(k *ptx.Kernel) { k.PtrParam("x").Index(k.Lane(), 4).LoadF32(0) })
	host := make([]byte, 128)
	launch := func(code *kernel.Code, at driver.Ptr) func(m *machine, s driver.Stream, x driver.Ptr) {
		return func(m *machine, s driver.Stream, x driver.Ptr) {
			mod, _, err := m.drv.LoadModule(append([]byte(code.Text), 0))
			m.must(err)
			f, err := m.drv.GetFunction(mod, code.Name)
			m.must(err)
			call := kernel.NewCall(code, driver.Dim{X: 1, Y: 1, Z: 1}, kernel.Ptr(1))
			m.must(m.drv.Launch(call.Launch(f, s, func(kernel.Buffer) driver.Ptr { return x + at })))
		}
	}
	upload := func(m *machine, s driver.Stream, x driver.Ptr) { m.must(m.drv.CopyToDevice(x, host, s)) }
	download := func(m *machine, s driver.Stream, x driver.Ptr) { m.must(m.drv.CopyToHost(host, x, s)) }
	clone := func(m *machine, s driver.Stream, x driver.Ptr) { m.must(m.drv.CopyOnDevice(x+512, x, 128, s)) }
	for _, c := range []struct {
		name          string
		first, second func(m *machine, s driver.Stream, x driver.Ptr)
		bad           bool // without order
	}{
		{"written and read by kernels", launch(write, 0), launch(read, 0), true},
		{"read and written by kernels", launch(read, 0), launch(write, 0), true},
		{"read by both", launch(read, 0), launch(read, 0), false},
		{"other parts", launch(write, 0), launch(read, 128), false},
		{"upload and kernel", upload, launch(read, 0), true},
		{"kernel and upload", launch(read, 0), upload, true},
		{"kernel and download", launch(write, 0), download, true},
		{"kernel that reads, and download", launch(read, 0), download, false},
		{"upload and download", upload, download, true},
		{"copy, and kernel on its source", clone, launch(write, 0), true},
		{"copy, and kernel on its destination", clone, launch(read, 512), true},
		{"copy, and kernel that reads its source", clone, launch(read, 0), false},
	} {
		for _, how := range []string{"nothing", "event", "host", "query", "the same stream"} {
			m := newMachine(t, emu.Options{Seed: 1})
			x := m.memory(1024, true)
			m.must(m.drv.Synchronize(m.stream))
			other, err := m.drv.CreateStream()
			m.must(err)
			c.first(m, m.stream, x)
			e, err := m.drv.CreateEvent(false)
			m.must(err)
			m.must(m.drv.Record(e, m.stream))
			switch how {
			case "event":
				m.must(m.drv.Wait(other, e))
			case "host":
				m.must(m.drv.Synchronize(m.stream))
			case "query":
				for done := false; !done; {
					done, err = m.drv.Query(e)
					m.must(err)
				}
			case "the same stream":
				other = m.stream
			}
			c.second(m, other, x)
			m.must(m.drv.Synchronize(m.stream))
			m.must(m.drv.Synchronize(other))
			found := fmt.Sprint(m.drv.Findings())
			if want := c.bad && how == "nothing"; want != strings.Contains(found, "race of streams") || !want && found != "[]" {
				t.Errorf("%s, ordered by %s: found %v", c.name, how, found)
			}
		}
	}
}
