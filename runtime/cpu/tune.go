package cpu

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/essmc/essmc/internal/worktime"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/ops/essm"
	"github.com/essmc/essmc/runtime"
)

// MeasureCosts measures each job in tuneRounds rounds, and repeats it in each round for about tuneTurn.
const (
	tuneRounds = 9
	tuneTurn   = 10 * time.Millisecond
)

// TuneSteps is the number of times that MeasureCosts calls step.
const TuneSteps = tuneRounds + 1

// MeasureCosts measures the constants of this machine and of the kernels that this process uses. It takes a second
// or two, on one thread. It runs small graphs in the forms that Costs estimates, in rounds in which the graphs take
// turns, and uses the minimum processor time of each, since other work on the machine only adds to it. step reports
// progress: it is called TuneSteps times, and may be nil. MeasureCosts returns an error if ctx is done.
func MeasureCosts(ctx context.Context, step func()) (Costs, error) {
	if step == nil {
		step = func() {}
	}
	all, err := newTuneJobs(ctx)
	if err != nil {
		return Costs{}, err
	}
	step()
	for range tuneRounds {
		for _, j := range all {
			if err := ctx.Err(); err != nil {
				return Costs{}, err
			}
			if err := j.measure(); err != nil {
				return Costs{}, err
			}
		}
		step()
	}
	nanos := map[string]float64{}
	for _, j := range all {
		nanos[j.name] = slices.Min(j.nanos)
	}
	return solveCosts(nanos), nil
}

// Sizes of the measured work: features, steps, states of a head with a full matrix, taps of a window. The recurrences
// fit the cache, as the tiles of a region do.
const (
	scanSize, scanSteps            = 256, 256
	convolutionSize, tinySteps     = 64, 2
	fftSteps, directSteps          = 4096, 1024
	shortSteps, shortTaps          = 1024, 8
	denseSize, denseHead, denseLen = 64, 16, 512
	gemmRows, gemmSize             = 2048, 256
	copySize                       = 8 << 20
)

// solveCosts computes the constants from the nanoseconds of each job. It is the inverse of problem.estimate.
func solveCosts(t map[string]float64) Costs {
	c := Costs{
		Scan:        t["scan"] / (scanSize * scanSteps),
		ComplexScan: t["complex scan"] / (scanSize * scanSteps),
		Pass:        t["copy"] / copySize,
		Call:        (t["tiny fft"] - t["tiny scan"]) / (convolutionSize / besideGroup),
		Dense:       4 * denseSize * denseHead * denseLen / t["dense"],
		Gemm:        2 * gemmRows * gemmSize * gemmSize / t["gemm"],
	}
	c.tidy()
	passes := func(steps float64) float64 { return convolutionSize * (steps*c.Pass + c.Call) }
	const size = 2 * fftSteps
	groups := convolutionSize * (fftSteps*c.Pass + c.Call/besideGroup)
	c.FFT = (t["fft"] - groups) / (2 * convolutionSize * size * math.Log2(size) * besideFFT)
	// Nanoseconds per output of both correlations: 2·taps/Direct + Output, with half of the taps if there is no window.
	long := (t["direct"] - passes(directSteps)) / (convolutionSize * directSteps)
	short := (t["short direct"] - passes(shortSteps)) / (convolutionSize * shortSteps)
	c.Direct = (directSteps - 2*shortTaps) / (long - short)
	c.Output = short - 2*shortTaps/c.Direct
	c.tidy()
	return c
}

// tuneJob is a measured piece of work.
type tuneJob struct {
	name  string
	run   func() error
	reps  int
	nanos []float64 // of one run, in each round
}

func (j *tuneJob) measure() error {
	start := worktime.Now()
	for range j.reps {
		if err := j.run(); err != nil {
			return fmt.Errorf("tune: %s: %w", j.name, err)
		}
	}
	j.nanos = append(j.nanos, float64(worktime.Now()-start)/float64(j.reps))
	return nil
}

// newTuneJobs prepares the jobs. It runs each of them, to warm up and to find how often it fits into a turn.
func newTuneJobs(ctx context.Context) ([]*tuneJob, error) {
	from, to := make([]float32, copySize), make([]float32, copySize)
	for i := range from { // all pages that were never written to share one page of memory
		from[i] = 1
	}
	all := []*tuneJob{{name: "copy", run: func() error { copy(to, from); return nil }}}
	for _, w := range []struct {
		name, form      string
		steps, features int
		node            func(b *ir.Builder, x *ir.Value) *ir.Value
	}{
		{"scan", essm.FormScan, scanSteps, scanSize, tuneScan(scanSize)},
		{"complex scan", essm.FormScan, scanSteps, scanSize, tuneComplexScan},
		{"tiny scan", essm.FormScan, tinySteps, convolutionSize, tuneScan(convolutionSize)},
		{"tiny fft", essm.FormFFT, tinySteps, convolutionSize, tuneScan(convolutionSize)},
		{"fft", essm.FormFFT, fftSteps, convolutionSize, tuneScan(convolutionSize)},
		{"direct", essm.FormDirect, directSteps, convolutionSize, tuneScan(convolutionSize)},
		{"short direct", essm.FormDirect, shortSteps, convolutionSize,
			tuneScan(convolutionSize, ir.A("window", int64(shortTaps)))},
		{"dense", essm.FormScan, denseLen, denseSize, tuneDense},
		{"gemm", "", gemmRows, gemmSize, func(b *ir.Builder, x *ir.Value) *ir.Value {
			return b.Op("", "MatMul", []*ir.Value{x, b.Const("w", tensor.New(tensor.Float32, gemmSize, gemmSize))})
		}},
	} {
		run, err := tuneRun(ctx, w.form, w.steps, w.features, w.node)
		if err != nil {
			return nil, fmt.Errorf("tune: %s: %w", w.name, err)
		}
		all = append(all, &tuneJob{name: w.name, run: run})
	}
	for _, j := range all {
		for range 2 {
			start := time.Now()
			if err := j.run(); err != nil {
				return nil, fmt.Errorf("tune: %s: %w", j.name, err)
			}
			j.reps = int(clamp(tuneTurn/max(1, time.Since(start)), 1, 1e5))
		}
	}
	return all, nil
}

// tuneScan adds a system of n states that rotate and decay; forward and without a window, unless attrs say otherwise.
func tuneScan(n int, attrs ...ir.Attr) func(*ir.Builder, *ir.Value) *ir.Value {
	return func(b *ir.Builder, x *ir.Value) *ir.Value {
		return b.Op("essm", "Scan", tuneScanInputs(b, x, n), attrs...)
	}
}

// tuneComplexScan adds a system whose inputs have imaginary parts.
func tuneComplexScan(b *ir.Builder, x *ir.Value) *ir.Value {
	return b.Op("essm", "Scan", append(tuneScanInputs(b, x, scanSize), x))
}

func tuneScanInputs(b *ir.Builder, x *ir.Value, n int) []*ir.Value {
	constant := func(f func(i float64) float64) *ir.Value {
		v := make([]float64, n)
		for i := range v {
			v[i] = f(float64(i) / float64(n))
		}
		return b.Const("c", tensor.FromSlice(v, 1, 1, n))
	}
	return []*ir.Value{x,
		constant(func(float64) float64 { return -0.01 }), constant(func(i float64) float64 { return 3 * i }),
		constant(func(float64) float64 { return 1 }), constant(func(float64) float64 { return 0 })}
}

// tuneDense adds a forward system of heads with full matrices. The states decay.
func tuneDense(b *ir.Builder, x *ir.Value) *ir.Value {
	const heads = denseSize / denseHead
	diagonal := func(v float64) *ir.Value {
		m := make([]float64, heads*denseHead*denseHead)
		for i := range heads * denseHead {
			m[i*denseHead+i%denseHead] = v
		}
		return b.Const("m", tensor.FromSlice(m, 1, heads, denseHead, denseHead))
	}
	return b.Op("essm", "DenseScan", []*ir.Value{x, diagonal(0.9), diagonal(1)})
}

// tuneRun returns a function that runs a graph of one node on (1, steps, features).
func tuneRun(ctx context.Context, form string, steps, features int,
	node func(*ir.Builder, *ir.Value) *ir.Value) (func() error, error) {
	b := ir.NewBuilder("tune", ops.Default, ops.Opsets())
	b.Output("y", node(b, b.Input("x", ir.Tensor(tensor.Float32, 1, steps, features))))
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	p, err := New().Compile(g, runtime.Config{Threads: 1, Kernel: form, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	e, err := p.Bind(runtime.Binding{Inputs: []ir.Type{g.Inputs[0].Type}})
	if err != nil {
		return nil, err
	}
	x := tensor.New(tensor.Float32, 1, steps, features)
	for i := range tensor.Data[float32](x) {
		tensor.Data[float32](x)[i] = float32(i%17) - 8
	}
	in, out := []tensor.Datum{x}, make([]tensor.Datum, 1)
	return func() error { return e.Run(ctx, in, out) }, nil
}
