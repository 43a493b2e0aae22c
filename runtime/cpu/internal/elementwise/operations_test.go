package elementwise

import (
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	goruntime "runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/essmc/essmc/ir/scalar"
	"github.com/essmc/essmc/runtime/cpu/kernel"
)

// parameterSamples are samples of the parameters of operations.
var parameterSamples = map[scalar.Op][][]float64{
	scalar.OpLeakyRelu: {{0.01}, {-2}}, scalar.OpThresholdedRelu: {{1}, {-0.5}},
	scalar.OpClip:   {{-1, 2}, {0, math.Inf(1)}},
	scalar.OpShrink: {{0.25, 0.5}, {-1, 1.5}}, scalar.OpHardSigmoid: {{0.2, 0.5}, {1.0 / 6, 0.5}},
	scalar.OpElu:  {{1}, {0.25}},
	scalar.OpSelu: {{1.67326319217681884765625, 1.05070102214813232421875}}, scalar.OpSwish: {{1}, {1.702}},
}

// TestOperations checks the bound of each operation of one operand on a sweep over float32, on each variant of the
// kernels. ESSMC_LONG_SWEEP=1 tests all numbers, which takes two hours of processor time; with the symbol of an operation
// ("exp"), all numbers of this one.
func TestOperations(t *testing.T) {
	const own = "ESSMC_SWEEP_HERE" // in the process that runs one variant
	variants := kernel.Variants()
	if os.Getenv(own) == "" {
		for _, v := range variants {
			t.Run(v, func(t *testing.T) {
				c := exec.Command(os.Args[0], "-test.run=^TestOperations$", "-test.v", "-test.timeout=0")
				c.Env = append(os.Environ(), own+"=1", kernel.VariantEnv+"="+v)
				if out, err := c.CombinedOutput(); err != nil {
					t.Errorf("%v\n%s", err, out)
				} else {
					t.Logf("%s", out)
				}
			})
		}
		return
	}
	stride, all := uint64(40009), os.Getenv("ESSMC_LONG_SWEEP")
	switch {
	case all != "":
		stride = 1
	case os.Getenv("ESSMC_LONG") != "":
		stride = 997
	}
	var swept atomic.Int64
	var wait sync.WaitGroup
	turn := make(chan struct{}, goruntime.GOMAXPROCS(0))
	for _, op := range scalar.Ops() {
		o := operations[op]
		if o == nil || o.of1 == nil || len(all) > 1 && all != op.String() {
			continue
		}
		if os.Getenv(kernel.VariantEnv) != variants[0] && slices.ContainsFunc(in64, func(e oneIn64) bool { return e.op == op }) {
			continue // the same on every variant
		}
		samples := parameterSamples[op]
		if op.Arity() == 1 {
			samples = [][]float64{nil}
		}
		if len(samples) == 0 {
			t.Errorf("%v has no samples of parameters", op)
		}
		for _, k := range samples {
			swept.Add(1)
			turn <- struct{}{}
			wait.Go(func() {
				sweep(t, op, k, stride)
				<-turn
			})
		}
	}
	wait.Wait()
	if n := swept.Load(); n < 30 && len(all) <= 1 || n == 0 {
		t.Errorf("%d operations, which is too few", n)
	}
}

func sweep(t *testing.T, op scalar.Op, k []float64, stride uint64) {
	args := []scalar.Expr{scalar.Input(0)}
	for _, v := range k {
		args = append(args, scalar.Const(float64(float32(v))))
	}
	p := compile(scalar.Apply(op, args...))
	if p == nil || len(p.code) != 1 {
		t.Errorf("%v%v is not computed directly", op, k)
		return
	}
	f, o := p.unary(), operations[op]
	const n = 1024
	x, y, wide, want := make([]float32, n), make([]float32, n), make([]float64, n), make([]float64, n)
	m := scalar.NewMachine(scalar.Linearize(nil, scalar.Simplify(scalar.Expand(scalar.Apply(op, args...), nil))), n)
	out, in := [][]float64{want}, [][]float64{wide}
	worst, wrong := 0.0, 0
	for bits := uint64(0); bits < 1<<32; bits += n * stride {
		for i := range x {
			x[i] = math.Float32frombits(uint32(min(bits+uint64(i)*stride, 1<<32-1)))
			wide[i] = float64(x[i])
		}
		f(y, x)
		m.Run(n, out, in)
		for i, w := range want {
			if float32(w) == y[i] {
				continue
			}
			u := o.excess(float64(x[i]), w, y[i])
			worst = max(worst, u)
			if wrong++; u <= o.ulps+0.001 { // results that are rounded twice
				wrong--
			} else if wrong <= 3 {
				t.Errorf("%v%v of %v: expected %v, found %v: %.2f units in the last place, of %v", op, k, x[i], w, y[i],
					u, o.ulps)
			}
		}
	}
	if wrong > 3 {
		t.Errorf("%v%v: %d numbers are wrong", op, k, wrong)
	}
	t.Logf("%v%v: %.2f units of %v", op, k, worst, o.ulps)
}

// excess returns the distance of got from want in units of the last place; 0 within the other tolerances of o.bound.
func (o *operation) excess(x, want float64, got float32) float64 {
	w := float32(want)
	if w == got || w != w && got != got {
		return 0
	}
	if w != w || got != got {
		return math.Inf(1)
	}
	off, size := math.Abs(float64(got)-want), max(1, math.Abs(x))
	if off <= o.loss*size || o.ulps > 0 && (off <= 1.2e-38*size || math.IsInf(float64(got), 1) && want > 3.39e38) {
		return 0
	}
	return off / max(0x1p-149, math.Abs(float64(math.Nextafter32(w, float32(math.Inf(1)))-w)))
}

// TestPrograms compares programs with their expressions, with operands of all forms.
func TestPrograms(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	x := scalar.Inputs(3)
	half, one := scalar.Const(0.5), scalar.Const(1)
	for _, e := range []scalar.Expr{
		x[0], scalar.Add(x[0], x[1]), scalar.Sub(half, x[1]), scalar.Mul(x[2], x[2]), scalar.FMA(x[0], x[1], x[2]),
		scalar.FMA(x[0], half, one),
		scalar.Select(scalar.Less(x[0], x[1]), x[2], one), scalar.Select(scalar.LessEqual(x[0], half), half, x[1]),
		scalar.Select(scalar.Equal(scalar.Round(x[0]), scalar.Round(x[1])), x[0], scalar.Neg(x[2])),
		scalar.FloorMod(x[0], x[1]), scalar.Mod(x[0], half), scalar.Pow(scalar.Abs(x[0]), x[1]),
		scalar.Pow(x[0], scalar.Const(3)),
		scalar.Pow(x[0], scalar.Const(-1)), scalar.Pow(scalar.Const(2), x[0]), scalar.Pow(x[0], one),
		scalar.Clip(x[0], x[1], x[2]),
		scalar.Clip(x[0], scalar.Const(-1), x[1]), scalar.LeakyRelu(x[0], x[1]), scalar.LeakyRelu(half, x[1]),
		scalar.HardSigmoid(x[0], x[1], half),
		scalar.Celu(x[0], scalar.Const(0.25)), scalar.Celu(x[0], x[1]), scalar.Swish(x[0], x[1]),
		scalar.Elu(x[0], x[2]), scalar.Softsign(x[0]),
		scalar.Shrink(x[0], x[1], half), scalar.Sign(scalar.Sub(x[0], x[1])), scalar.Log1p(scalar.Mul(x[0], x[0])),
		scalar.Div(scalar.Add(scalar.Add(x[0], x[1]), x[2]), scalar.Const(3)), scalar.Float16(x[0]),
		scalar.Atan(scalar.Div(x[0], x[1])),
	} {
		p := compile(e)
		if p == nil {
			t.Errorf("%v is not compiled", e)
			continue
		}
		for _, n := range []int{1, 7, blockSize - 1, blockSize} {
			in := make([][]float32, 3)
			for i := range in {
				in[i] = make([]float32, n)
				for j := range in[i] {
					in[i][j] = float32(r.NormFloat64())
				}
			}
			y := make([]float32, n)
			b := takeBlocks()
			for i := range p.registers {
				b.v[i] = b.registers[i][:n]
			}
			for i, k := range p.reads {
				b.v[p.registers+i] = in[k]
			}
			p.compute(y, &b.v, n)
			b.release()
			for j := range y {
				want := e.At(float64(in[0][j]), float64(in[1][j]), float64(in[2][j]))
				if got := float64(y[j]); !(math.Abs(got-want) <= 4e-6*max(1, math.Abs(want))) &&
					!(math.IsNaN(got) && math.IsNaN(want)) {
					t.Fatalf("%v of %v, %v, %v: expected %v, found %v", e, in[0][j], in[1][j], in[2][j], want, got)
				}
			}
		}
	}
	for _, e := range []scalar.Expr{{}, one, scalar.Add(one, half)} {
		if p := compile(e); p != nil {
			t.Errorf("%v is compiled", e)
		}
	}
	sum := x[0]
	for i := 1; i <= maxOperands; i++ {
		sum = scalar.Add(sum, scalar.Input(i))
	}
	if compile(sum) != nil || compile(sum.Arg(0)) == nil || !slices.Equal(compile(sum.Arg(0)).reads[:2], []int{0, 1}) {
		t.Errorf("a sum of %d operands is the longest", maxOperands)
	}
}
