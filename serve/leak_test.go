package serve

import (
	"context"
	"fmt"
	goruntime "runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/essmc/essmc/ir/tensor"
	pb "github.com/essmc/essmc/serve/internal/inference"
)

// settled waits until at most n goroutines are left.
func settled(t *testing.T, n int) {
	t.Helper()
	for range 500 {
		if goruntime.NumGoroutine() <= n {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("%d goroutines are left, expected %d\n%s", goruntime.NumGoroutine(), n, stacks[:goruntime.Stack(stacks, true)])
}

// heap returns the live memory.
func heap() int64 {
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Reloads under traffic fail no request, and leave neither memory nor goroutines. Neither does a server that is closed.
func TestManyReloads(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 50
	}
	goroutines := goruntime.NumGoroutine()
	dir := t.TempDir()
	body := "b = Add (x, x)\n y = Relu (b)"
	write(t, graph("(float[B,2] x) => (float[B,2] y)", body), dir, "m.txt")
	s, err := New(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan bool)
	var answers atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				r := &request{model: "m", in: map[string]tensor.Datum{"x": tensor.FromSlice([]float32{1, -2}, 1, 2)}}
				out, err := s.infer(context.Background(), r, nil)
				if err != nil || tensor.Data[float32](out.outputs[0].data)[0] != 2 {
					t.Error("a request during reloads:", err)
					return
				}
				answers.Add(1)
			}
		})
	}
	var before int64
	first := s.repo.slots("m")["1"].v
	for i := range rounds {
		write(t, graph("(float[B,2] x) => (float[B,2] y)", body)+fmt.Sprintf("%*s\n", i+1, ""), dir, "m.txt")
		if err := s.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if i == 20 {
			before = heap()
		}
	}
	close(stop)
	wg.Wait()
	if answers.Load() == 0 || s.repo.slots("m")["1"].v == first {
		t.Errorf("%d answers, nothing was loaded", answers.Load())
	}
	if grown := heap() - before; grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes in %d reloads", grown, rounds-20)
	}
	s.Close()
	settled(t, goroutines)
}

// An idle sequence costs its state and at most 2 KiB, and one over gRPC at most 32 KiB more.
func TestIdleCost(t *testing.T) {
	dir := t.TempDir()
	directory(t, dir+"/m", 1, false, "none")
	s := start(t, Options{Dir: dir})
	state := s.repo.slots("m")["1"].v.stateBytes
	step := func(id string) {
		r := &request{model: "m", in: map[string]tensor.Datum{"input": noise(1, 1, 1, 2)}}
		r.params.sequence, r.params.start = id, true
		if _, err := s.infer(t.Context(), r, nil); err != nil {
			t.Fatal(err)
		}
	}
	step("first")
	const n = 2000
	before := heap()
	for i := range n {
		step(fmt.Sprint(i))
	}
	if each := (heap() - before) / n; each > state+overhead {
		t.Errorf("an idle sequence costs %d bytes, its state %d", each, state)
	}
	c := pb.NewGRPCInferenceServiceClient(dial(t, s))
	open := func() {
		stream, err := c.ModelStreamInfer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(with(asks(t, "m", "input", noise(1, 1, 1, 2)), map[string]any{"essmc_session": true})); err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Recv(); err != nil || m.GetErrorMessage() != "" {
			t.Fatal(m, err)
		}
	}
	open()
	before = heap()
	for range 200 {
		open()
	}
	if each := (heap() - before) / 200; each > state+64<<10 { // of the client as well
		t.Errorf("an open session costs %d bytes, with its client, its state %d", each, state)
	}
}

// A connection that breaks frees its sessions and its goroutines.
func TestDisconnect(t *testing.T) {
	dir := t.TempDir()
	directory(t, dir+"/m", 1, false, "none")
	s := start(t, Options{Dir: dir})
	conn := dial(t, s)
	c := pb.NewGRPCInferenceServiceClient(conn)
	if _, err := c.ServerLive(t.Context(), &pb.ServerLiveRequest{}); err != nil {
		t.Fatal(err)
	}
	goroutines := goruntime.NumGoroutine()
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := c.ModelStreamInfer(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(with(asks(t, "m", "input", noise(1, 1, 1, 2)), map[string]any{"essmc_session": true})); err != nil {
			t.Fatal(err)
		}
		if m, err := stream.Recv(); err != nil || m.GetErrorMessage() != "" {
			t.Fatal(m, err)
		}
		cancel()
	}
	for range 500 {
		if s.sequences.count() == 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n := s.sequences.count(); n != 0 {
		t.Errorf("%d sessions live after their connections", n)
	}
	settled(t, goroutines)
}
