package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	essmc "github.com/essmc/essmc/runtime"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// product is a product (rows x k)(k x n).
type product struct{ rows, n, k int }

func (p product) String() string { return fmt.Sprintf("%d x %d x %d", p.rows, p.n, p.k) }
func (p product) flops() float64 { return 2 * float64(p.rows) * float64(p.n) * float64(p.k) }

// products are the shapes of the presets' layers, for whole sequences and tiles, and a large square for the machine's
// peak.
var products = []product{
	{4096, 256, 256}, {65536, 256, 256}, {2000, 256, 256}, {1024, 256, 256}, {16384, 192, 192}, {16000, 128, 128},
	{784, 128, 128},
	{256, 256, 256}, {128, 256, 256}, {64, 256, 256}, {2000, 64, 64}, {4096, 32, 32}, {16384, 32, 24}, {16384, 24, 32},
	{16000, 4, 4}, {2048, 2048, 2048},
}

// tileRows is the number of rows per call of the kernel.
const tileRows = 96

func runGemm(ctx context.Context, e *env, r *result) error {
	t := table{Header: []string{"rows x N x K", "kernel", "MatMul", "OpenBLAS", "gonum", "GoMLX",
		"kernel against OpenBLAS"}}
	shapes := products
	if e.quick {
		shapes = []product{{1024, 256, 256}, {784, 128, 128}, {64, 256, 256}, {4096, 32, 32}}
	}
	var gains []float64
	least, slowest := 0.0, product{}
	for _, p := range shapes {
		e.progress("  %s", p)
		s, err := e.product(ctx, p)
		if err != nil {
			return err
		}
		rate := func(name string) string {
			if x := s.of(name); x != nil {
				return number(p.flops() / median(x) / 1e9)
			}
			return "–"
		}
		gain := s.ratio("OpenBLAS", "kernel")
		if gain.n > 0 && p.n <= 256 {
			gains = append(gains, gain.mid)
			if least == 0 || gain.mid < least {
				least, slowest = gain.mid, p
			}
		}
		t.add(p.String(), rate("kernel"), rate("MatMul"), rate("OpenBLAS"), rate("gonum"), rate("GoMLX"), gain.String())
	}
	r.Tables = append(r.Tables, t)
	const what = "dense products at the layers' shapes against OpenBLAS, 1 thread"
	if len(gains) == 0 {
		r.Verdicts = append(r.Verdicts, verdict{what, "1.0× at every shape, 1.1× in the geometric mean",
			"OpenBLAS is absent", unmeasured})
		return nil
	}
	r.Verdicts = append(r.Verdicts,
		judge(what+", the least", "1.0×", fmt.Sprintf("%s× at %v", number(least), slowest), least >= 1),
		judge(what+", geometric mean", "1.1×", number(geomean(gains))+"×", geomean(gains) >= 1.1))
	return nil
}

// product measures one shape on all contenders.
func (e *env) product(ctx context.Context, p product) (*samples, error) {
	x, w := random(noise(1), 1, p.rows, p.k), random(noise(2), p.k, p.n)
	xs, ws := tensor.Data[float32](x), tensor.Data[float32](w)
	y := make([]float32, p.rows*p.n)
	packed := kernel.Pack(ws, p.n, p.k, 1, p.n)
	all := []contender{
		{name: "kernel", run: func(reps int) (time.Duration, error) {
			start := time.Now()
			for range reps {
				for i := 0; i < p.rows; i += tileRows {
					kernel.Gemm(y[i*p.n:], p.n, xs[i*p.k:], p.k, min(tileRows, p.rows-i), packed, nil, false)
				}
			}
			return time.Since(start), nil
		}},
		{name: "gonum", run: func(reps int) (time.Duration, error) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // otherwise it starts goroutines for each call
			start := time.Now()
			for range reps {
				blas32.Gemm(blas.NoTrans, blas.NoTrans, 1, blas32.General{Rows: p.rows, Cols: p.k, Stride: p.k,
					Data: xs},
					blas32.General{Rows: p.k, Cols: p.n, Stride: p.n, Data: ws}, 0,
					blas32.General{Rows: p.rows, Cols: p.n, Stride: p.n, Data: y})
			}
			return time.Since(start), nil
		}},
	}
	b := ir.NewBuilder("product", ops.Default, ops.Opsets())
	b.Output("y", b.Op("", "MatMul", []*ir.Value{b.Input("x", ir.Tensor(tensor.Float32, "B", "L", p.k)),
		b.Const("w", w)}))
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	if err := passes.Optimize(g); err != nil {
		return nil, err
	}
	m, err := newOurs(ctx, g, map[string]tensor.Datum{"x": x}, essmc.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer m.close()
	all = append(all, m.contender(ctx, "MatMul"))
	shape := fmt.Sprintf("1:%d:%d:%d", p.rows, p.n, p.k)
	for _, other := range []struct {
		name string
		*peer
	}{{"OpenBLAS", e.peers.blas}, {"GoMLX", e.peers.gomlx}} {
		if other.peer == nil {
			continue
		}
		j, err := other.load(1, "product", shape)
		if err != nil {
			return nil, err
		}
		defer j.drop()
		all = append(all, contender{name: other.name, run: j.run})
	}
	return measure(ctx, e.effort(10*time.Second), all)
}
