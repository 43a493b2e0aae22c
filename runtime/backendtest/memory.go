package backendtest

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	goruntime "runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/essmc/essmc/internal/race"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// memoryLimit bounds the runs of greedy graphs.
const memoryLimit = 16 << 20

// greedy are graphs that need far more memory than their size suggests.
var greedy = []struct {
	name, text string
	in         func() Data
	garbage    bool // what the run has allocated before it is refused need not be alive
}{
	{"output in place", `g (float[N,4] x) => (y) <int64[2] r = {1048576, 262144}> { y = Tile (x, r) }`, floats(1, 4), false},
	{"output of 128 MiB", `g (float[N,4] x) => (y) <int64[2] r = {8192, 1024}> { y = Tile (x, r) }`, floats(1, 4), false},
	{"value of known shape", `g (float[N,4] x) => (y) <int64[2] r = {8192, 1024}, int64[2] axes = {0, 1}, int64 axis = {1}> {
		a = Tile (x, r)
		b = CumSum <exclusive: int = 1> (a, axis)
		y = ReduceMax (b, axes)
	}`, floats(1, 4), false},
	{"output of strings", `g (string[1] s, int64[1] n) => (y) { y = Tile (s, n) }`, func() Data {
		return Data{"s": tensor.FromStrings([]string{"text"}, 1), "n": ints(1 << 24)}
	}, false},
	{"range", `g (int64 n) => (y) <int64 zero = {0}, int64 one = {1}> { y = Range (zero, n, one) }`,
		func() Data { return Data{"n": tensor.Scalar(int64(1 << 27))} }, false},
	{"range within", `g (int64 n) => (y) <int64 zero = {0}, int64 one = {1}> {
		a = Range (zero, n, one)
		y = ReduceSum <keepdims: int = 0> (a)
	}`, func() Data { return Data{"n": tensor.Scalar(int64(1 << 27))} }, false},
	{"constant of a shape", `g (int64[1] n) => (y) { y = ConstantOfShape (n) }`,
		func() Data { return Data{"n": ints(1 << 28)} }, false},
	{"carried value", `g (float[N] a, int64 m) => (y) {
		y = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P] p) => (bool d, float[Q] q) {
			d = Identity (c)
			q = Concat <axis: int = 0> (p, p)
		}>
	}`, loop(60), false},
	{"body bound late", `g (float[N,N] a, int64 m) => (y) {
		y = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P,P] p) => (bool d, float[Q,Q] q) {
			d = Identity (c)
			u = Concat <axis: int = 0> (p, p)
			v = Concat <axis: int = 1> (u, u)
			w = MatMul (v, v)
			q = Tanh (w)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 16, 16), "m": tensor.Scalar(int64(60))} }, true},
	{"sequence", `g (float[N] a, int64 m) => (y) {
		e = SequenceEmpty ()
		y = Loop (m, "", e) <body: graph = step (int64 t, bool c, seq(float[]) s) => (bool d, seq(float[]) q) {
			d = Identity (c)
			v = Neg (a)
			q = SequenceInsert (s, v)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1<<14), "m": tensor.Scalar(int64(1 << 40))} }, false},
	{"sequence of little", `g (float[N] a, int64 m) => (y) {
		e = SequenceEmpty ()
		y = Loop (m, "", e) <body: graph = step (int64 t, bool c, seq(float[]) s) => (bool d, seq(float[]) q) {
			d = Identity (c)
			v = Neg (a)
			q = SequenceInsert (s, v)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1<<10), "m": tensor.Scalar(int64(1 << 40))} }, true},
	{"strings", `g (string[N] s, int64 m) => (y) {
		y = Loop (m, "", s) <body: graph = step (int64 t, bool c, string[N] p) => (bool d, string[N] q) {
			d = Identity (c)
			q = StringConcat (p, p)
		}>
	}`, func() Data { return Data{"s": tensor.FromStrings([]string{"text"}, 1), "m": tensor.Scalar(int64(60))} }, false},
	{"strings that double", `g (string[N] s, int64 m) => (y) {
		y = Loop (m, "", s) <body: graph = step (int64 t, bool c, string[P] p) => (bool d, string[Q] q) {
			d = Identity (c)
			q = Concat <axis: int = 0> (p, p)
		}>
	}`, func() Data { return Data{"s": tensor.FromStrings([]string{"text"}, 1), "m": tensor.Scalar(int64(60))} }, true},
	{"sequence that doubles", `g (float[N,4] a, int64 m) => (y) {
		e = SequenceConstruct (a)
		y = Loop (m, "", e) <body: graph = step (int64 t, bool c, seq(float[P,4]) s) => (bool d, seq(float[P,4]) q) {
			d = Identity (c)
			v = ConcatFromSequence <axis: int = 0> (s)
			q = SequenceInsert (s, v)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1, 4), "m": tensor.Scalar(int64(60))} }, true},
	{"items that double", `g (float[N,4] a, int64 m) => (y) {
		e = SequenceConstruct (a)
		y = Loop (m, "", e) <body: graph = step (int64 t, bool c, seq(float[P,4]) s) => (bool d, seq(float[P,4]) q) {
			d = Identity (c)
			v = ConcatFromSequence <axis: int = 0> (s)
			w = Concat <axis: int = 0> (v, v)
			q = SplitToSequence <axis: int = 0> (w)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1, 4), "m": tensor.Scalar(int64(60))} }, true},
	{"scan output", `g (float[N] a, int64 m) => (y, z) {
		y, z = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[N] p) => (bool d, float[N] q, float[N] r) {
			d = Identity (c)
			q = Neg (p)
			r = Abs (p)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1<<14), "m": tensor.Scalar(int64(1 << 20))} }, true},
	{"scan output of any shape", `g (float[N] a, int64 m) => (y, z) {
		y, z = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P] p) => (bool d, float[Q] q, float[R] r) {
			d = Identity (c)
			f = Greater (p, p)
			e = Not (f)
			q = Compress (p, e)
			r = Abs (q)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1<<14), "m": tensor.Scalar(int64(1 << 20))} }, true},
	{"loop in a branch", `g (float[N] a, int64 m, bool z) => (y) {
		y = If (z) <then_branch: graph = then () => (float[M] k1) {
			k1 = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P] p) => (bool d, float[Q] q) {
				d = Identity (c)
				q = Concat <axis: int = 0> (p, p)
			}>
		}, else_branch: graph = else () => (float[M] k2) { k2 = Neg (a) }>
	}`, func() Data {
		return Data{"a": tensor.New(tensor.Float32, 16), "m": tensor.Scalar(int64(60)), "z": tensor.Scalar(true)}
	}, false},
	{"image", `g (uint8[N] x) => (y) { y = ImageDecoder (x) }`, func() Data {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewNRGBA(image.Rect(0, 0, 3000, 3000))); err != nil {
			panic(err)
		}
		return Data{"x": tensor.FromSlice(b.Bytes(), b.Len())}
	}, false},
	{"tables of kernels", `g (float[N] x, int64[N] i) => (y) <int64[1] axes = {1}, int64[2] shape = {4096, 4096}> {
		a = Unsqueeze (x, axes)
		e = Expand (a, shape)
		b = Unsqueeze (i, axes)
		k = Expand (b, shape)
		g = GatherElements (e, k)
		u, j, l, m = Unique (g)
		y = ReduceSum <keepdims: int = 0> (m)
	}`, func() Data { return Data{"x": tensor.New(tensor.Float32, 1), "i": ints(0)} }, false},
	{"inputs of another type", `g (float[N] x) => (y) { y = ReduceSum <keepdims: int = 0> (x) }`,
		func() Data { return Data{"x": tensor.New(tensor.Float16, 1<<23)} }, false},
}

func ints(v ...int64) *tensor.Tensor { return tensor.FromSlice(v, len(v)) }

func floats(shape ...int) func() Data {
	return func() Data { return Data{"x": tensor.New(tensor.Float32, shape...)} }
}

func loop(n int64) func() Data {
	return func() Data { return Data{"a": tensor.New(tensor.Float32, 16), "m": tensor.Scalar(n)} }
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return int64(after.TotalAlloc - before.TotalAlloc)
}

// grown returns by how many bytes the heap grows while f runs, with little garbage: up to a fifth of the previous
// heap is not counted.
func grown(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(20))
	goruntime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	heap := func() int64 {
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	before := heap()
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		peak := before
		for {
			select {
			case <-done:
				most <- peak - before - before/5
				return
			case <-time.After(time.Millisecond / 2):
				peak = max(peak, heap())
			}
		}
	}()
	f()
	close(done)
	return <-most
}

// memoryBounds checks that runs are refused before they allocate more than the limit, whatever needs it; and that runs
// that fit are not refused, however many there are.
func (s *suite) memoryBounds(t *testing.T) {
	if race.Enabled && testing.Short() {
		t.Skip("large values in one session at a time, minutes under the race detector")
	}
	for _, c := range greedy {
		s.sub(t, c.name, func(t *testing.T) {
			g, err := ParseGraph(c.text)
			if err != nil {
				t.Fatal(err)
			}
			session := s.model(t, g, runtime.Options{Threads: 2, MaxMemory: memoryLimit}).NewSession()
			in, measure := c.in(), allocated
			if c.garbage {
				measure = grown
			}
			for range 2 { // the second run finds the session as the first one did
				var memory *runtime.MemoryError
				bytes := measure(func() { _, err = session.Run(context.Background(), in) })
				s.skipRefused(t, err)
				if !errors.As(err, &memory) {
					t.Fatalf("found %v, expected an error of memory", err)
				}
				if memory.Limit != memoryLimit || memory.Need <= memory.Limit || memory.What == "" {
					t.Errorf("%v: the limit is %d", memory, memoryLimit)
				}
				if most := int64(2*memoryLimit + 4<<20); bytes > most { // what grows is copied
					t.Errorf("the run has taken %d bytes, at most %d were expected: %v", bytes, most, err)
				}
			}
			t.Log(err)
		})
	}
	s.sub(t, "without a limit", func(t *testing.T) {
		g, err := ParseGraph(greedy[0].text)
		if err != nil {
			t.Fatal(err)
		}
		session := s.model(t, g, runtime.Options{}).NewSession()
		var memory *runtime.MemoryError
		if _, err := session.Run(context.Background(), greedy[0].in()); !errors.As(err, &memory) {
			t.Errorf("found %v, expected an error of memory", err)
		}
	})
	for _, c := range fitting {
		s.sub(t, "fits/"+c.name, func(t *testing.T) {
			g, err := ParseGraph(c.text)
			if err != nil {
				t.Fatal(err)
			}
			run := func(limit int64, runs int) (err error) {
				session := s.model(t, g, runtime.Options{Threads: 1, MaxMemory: limit}).NewSession()
				in, held := c.in(), int64(0)
				for i := range runs {
					if _, err = session.Run(context.Background(), in); err != nil {
						return err
					}
					if i == 0 {
						held = session.Memory()
					}
				}
				if now := session.Memory(); now != held {
					t.Errorf("%d bytes are held after the first run, %d after %d", held, now, runs)
				}
				return nil
			}
			if err := run(c.bytes-1, 1); !errors.Is(err, runtime.ErrMemory) {
				t.Errorf("%d bytes, less than the result: %v", c.bytes-1, err)
			}
			limit := c.bytes*c.times + 128<<10
			if err := run(limit, c.runs); err != nil {
				t.Errorf("%d bytes: %v", limit, err)
			}
		})
	}
	s.sub(t, "stream", s.memoryStream)
}

// fitting are graphs with the bytes that their results, or values within, take. The limit is some times that: results
// are copied for the caller, and what grows is there twice.
var fitting = []struct {
	name, text   string
	in           func() Data
	bytes, times int64
	runs         int
}{
	{"output in place", `g (float[N,4] x) => (y) <int64[2] r = {256, 64}> { y = Tile (x, r) }`, floats(1, 4),
		1 << 18, 2, 1000},
	{"output", `g (int64 n) => (y) <int64 zero = {0}, int64 one = {1}> { y = Range (zero, n, one) }`,
		func() Data { return Data{"n": tensor.Scalar(int64(1 << 15))} }, 1 << 18, 2, 200},
	{"carried value", greedyText("carried value"), loop(12), 1 << 18, 3, 200},
	{"loop that forgets", `g (float[N] a, int64 m) => (y) {
		y = Loop (m, "", a) <body: graph = step (int64 t, bool c, float[P] p) => (bool d, float[Q] q) {
			d = Identity (c)
			f = Greater (p, p)
			e = Not (f)
			q = Compress (p, e)
		}>
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1<<16), "m": tensor.Scalar(int64(100))} },
		1 << 18, 8, 5},
	{"views", `g (float[N] a, int64[1] s) => (y) {
		b = Abs (a)
		` + views(20) + `
		y = ReduceSum <keepdims: int = 0> (v20)
	}`, func() Data { return Data{"a": tensor.New(tensor.Float32, 1<<16), "s": ints(1 << 16)} }, 1 << 18, 11, 200},
	{"sequence", greedyText("sequence"),
		func() Data { return Data{"a": tensor.New(tensor.Float32, 1<<14), "m": tensor.Scalar(int64(8))} },
		1 << 19, 3, 1000},
}

func greedyText(name string) string {
	for _, c := range greedy {
		if c.name == name {
			return c.text
		}
	}
	panic(name)
}

// views writes reshapes, each of the one before.
func views(n int) string {
	var b strings.Builder
	last := "b"
	for i := range n {
		next := "v" + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10))
		b.WriteString(next + " = Reshape (" + last + ", s)\n")
		last = next
	}
	return b.String()
}

// memoryStream checks that a step that does not fit leaves the stream as it was.
func (s *suite) memoryStream(t *testing.T) {
	g, err := ParseGraph(`g (float[B,L,4] x) => (y) <int64 axis = {1}, int64[3] r = {1, 1, 1024}> {
		sum = CumSum (x, axis)
		y = Tile (sum, r)
	}`)
	if err != nil {
		t.Fatal(err)
	}
	g.Meta[ir.MetaTime], g.Meta[ir.MetaBatch] = "L", "B"
	m := s.model(t, g, runtime.Options{Threads: 1, MaxMemory: memoryLimit})
	stream, err := m.NewStream(1)
	if err != nil {
		t.Fatal(err)
	}
	chunk := func(n int) Data {
		x := tensor.New(tensor.Float32, 1, n, 4)
		for i := range tensor.Data[float32](x) {
			tensor.Data[float32](x)[i] = 1
		}
		return Data{"x": x}
	}
	ctx, out := context.Background(), Data{}
	if err := stream.Step(ctx, chunk(100), out); err != nil {
		t.Fatal(err)
	}
	before, err := stream.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	var memory *runtime.MemoryError
	size := allocated(func() { err = stream.Step(ctx, chunk(8192), Data{}) })
	if !errors.As(err, &memory) || memory.Limit != memoryLimit {
		t.Fatalf("found %v, expected an error of memory", err)
	}
	if size > 2*memoryLimit {
		t.Errorf("the refused step has allocated %d bytes", size)
	}
	if after, err := stream.Snapshot(); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the refused step has changed the stream (%v)", err)
	}
	for range 1000 {
		out = Data{}
		if err := stream.Step(ctx, chunk(1), out); err != nil {
			t.Fatal(err)
		}
	}
	if y := tensor.Data[float32](out["y"].(*tensor.Tensor)); y[len(y)-1] != 1100 {
		t.Errorf("found %v after 1100 steps", y[len(y)-1])
	}
	_, err = m.NewStream(1 << 24)
	if !errors.Is(err, runtime.ErrMemory) {
		t.Errorf("a stream of many samples: %v", err)
	}
}
