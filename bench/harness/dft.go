package main

import (
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"gonum.org/v1/gonum/dsp/fourier"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/passes/lower"
	essmc "github.com/essmc/essmc/runtime"
)

// dftRows is the number of transforms per run.
const dftRows = 16

func runDFT(ctx context.Context, e *env, r *result) error {
	lengths := []int{1000, 2000, 4096, 16000, 16384}
	if e.quick {
		lengths = []int{1000, 4096}
	}
	t := table{Header: []string{"length", "input", "essmc", "FFTW", "ONNX Runtime", "gonum (float64)",
		"ONNX Runtime : essmc", "essmc : FFTW"},
		Note: fmt.Sprintf("Time of %d transforms. Of real input, half of the spectrum is computed.", dftRows)}
	leastORT, mostFFTW := 0.0, 0.0
	for _, n := range lengths {
		for _, kind := range []string{"real", "complex"} {
			e.progress("  %d %s", n, kind)
			s, err := e.dft(ctx, n, kind)
			if err != nil {
				return err
			}
			if err := s.err("ONNX Runtime"); err != nil && e.peers.ort != nil {
				r.Notes = append(r.Notes, fmt.Sprintf("length %d, %s: %v", n, kind, err))
			}
			ort, fftw := s.ratio("ONNX Runtime", "essmc"), s.ratio("essmc", "FFTW")
			if ort.n > 0 && (leastORT == 0 || ort.mid < leastORT) {
				leastORT = ort.mid
			}
			if fftw.n > 0 && n&(n-1) == 0 {
				mostFFTW = max(mostFFTW, fftw.mid)
			}
			t.add(strconv.Itoa(n), kind, seconds(s.of("essmc")), seconds(s.of("FFTW")), seconds(s.of("ONNX Runtime")),
				seconds(s.of("gonum")), ort.String(), fftw.String())
		}
	}
	r.Tables = append(r.Tables, t)
	a := verdict{"DFT against ONNX Runtime's, the least", "10×", "ONNX Runtime is absent", unmeasured}
	if leastORT > 0 {
		a = judge(a.What, a.Target, number(leastORT)+"×", leastORT >= 10)
	}
	b := verdict{"DFT against FFTW's at powers of two, the most", "at most 2×", "FFTW is absent", unmeasured}
	if mostFFTW > 0 {
		b = judge(b.What, b.Target, number(mostFFTW)+"×", mostFFTW <= 2)
	}
	r.Verdicts = append(r.Verdicts, a, b)
	return nil
}

// dft measures transforms of real or complex rows.
func (e *env) dft(ctx context.Context, n int, kind string) (*samples, error) {
	parts, onesided := 2, int64(0)
	if kind == "real" {
		parts, onesided = 1, 1
	}
	b := ir.NewBuilder("dft", ops.Default, ops.Opsets())
	in := b.Input("x", ir.Tensor(tensor.Float32, dftRows, n, parts))
	b.Output("y", b.Op("", "DFT", []*ir.Value{in, nil, b.Const("axis", tensor.Scalar(int64(1)))},
		ir.A("onesided", onesided), ir.A("inverse", int64(0))))
	g, err := b.Build()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("dft-%d-%s", n, kind)
	x := random(noise(1), dftRows, n, parts)
	var all []contender
	if e.peers.ort != nil {
		file, input := filepath.Join(e.work, name+".onnx"), filepath.Join(e.work, name+".npy")
		if err := arrays.Write(input, x); err != nil {
			return nil, err
		}
		if err := export(file, g, lower.Options{}); err != nil {
			return nil, err
		}
		j, err := e.peers.onnx(1, file, "x="+input)
		if err != nil {
			return nil, err
		}
		defer j.drop()
		all = append(all, contender{name: "ONNX Runtime", run: j.run})
	}
	if err := passes.Optimize(g); err != nil {
		return nil, err
	}
	m, err := newOurs(ctx, g, map[string]tensor.Datum{"x": x}, essmc.Options{Threads: 1})
	if err != nil {
		return nil, err
	}
	defer m.close()
	all = append(all, m.contender(ctx, "essmc"))
	if e.peers.fftw != nil {
		j, err := e.peers.fftw.load(1, "dft", kind, strconv.Itoa(n), strconv.Itoa(dftRows))
		if err != nil {
			return nil, err
		}
		defer j.drop()
		all = append(all, contender{name: "FFTW", run: j.run})
	}
	all = append(all, contender{name: "gonum", run: gonumDFT(n, kind)})
	return measure(ctx, e.effort(8*time.Second), all)
}

func gonumDFT(n int, kind string) func(int) (time.Duration, error) {
	real, complexes := make([]float64, n), make([]complex128, n)
	r := noise(1)
	for i := range real {
		real[i] = float64(r())
		complexes[i] = complex(real[i], 1)
	}
	spectrum := make([]complex128, n)
	once := func() {}
	if kind == "real" {
		f := fourier.NewFFT(n)
		once = func() { f.Coefficients(spectrum[:n/2+1], real) }
	} else {
		f := fourier.NewCmplxFFT(n)
		once = func() { f.Coefficients(spectrum, complexes) }
	}
	return func(reps int) (time.Duration, error) {
		start := time.Now()
		for range reps * dftRows {
			once()
		}
		t := time.Since(start)
		runtime.KeepAlive(spectrum)
		return t, nil
	}
}
