package scalar

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestProgram checks linear forms, run on registers as they assign them, against evaluation point by point.
func TestProgram(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		es := []Expr{random(r, 1+r.IntN(30), Ops()), random(r, 1+r.IntN(5), Ops()), random(r, 1, Ops())}[:1+r.IntN(3)]
		keep := func(op Op) bool { return op%3 == 0 }
		if r.IntN(2) == 0 {
			keep = nil
		}
		p := Linearize(keep, es...)
		for i, in := range p.Code {
			if in.Op.IsFunction() && (keep == nil || !keep(in.Op)) {
				t.Fatalf("%v is left", in.Op)
			}
			for _, a := range in.Args[:in.Arity()] {
				if a >= i {
					t.Fatalf("instruction %d reads %d", i, a)
				}
			}
		}
		x := point(r)
		regs := make([]float64, p.Slots)
		values := make([]float64, len(p.Code))
		dead := make([]bool, len(p.Code))
		for i, in := range p.Code {
			var a []Expr
			for k, j := range in.Args[:in.Arity()] {
				v := values[j]
				if s := p.Code[j].Slot; s >= 0 {
					v = regs[s]
				}
				if dead[j] || !same(v, values[j]) {
					t.Fatalf("instruction %d: operand %d is gone\n%v", i, k, p)
				}
				a = append(a, Const(v))
			}
			for k, j := range in.Args[:in.Arity()] {
				dead[j] = dead[j] || in.Dies[k]
			}
			switch in.Op {
			case OpInput:
				values[i] = x[in.Index]
			case OpConst:
				values[i] = in.Value
			default:
				values[i] = Apply(in.Op, a...).At()
				regs[in.Slot] = values[i]
			}
		}
		for k, e := range es {
			if got, want := values[p.Results[k]], e.At(x...); !same(got, want) || dead[p.Results[k]] {
				t.Fatalf("%v at %v: expected %v, found %v\n%v", e, x, want, got, p)
			}
			if s := p.Code[p.Results[k]].Slot; s >= 0 && !same(regs[s], values[p.Results[k]]) {
				t.Fatalf("result %d has been overwritten\n%v", k, p)
			}
		}
		for i, in := range p.Code {
			if in.Arity() > 0 && !dead[i] && !slices.Contains(p.Results, i) {
				t.Fatalf("value %d never dies\n%v", i, p)
			}
		}
	}
}

// TestProgramShares computes what occurs twice once, in the order that needs few registers.
func TestProgramShares(t *testing.T) {
	x, y := Input(0), Input(1)
	e := Exp(Mul(x, y))
	p := Linearize(nil, Add(e, Const(1)), Mul(Sigmoid(x), e))
	want := `v0 = input 0
v1 = input 1
v2 = mul v0 v1. -> r0
v3 = exp v2. -> r0
v4 = const 1
v5 = add v3 v4 -> r1
v6 = neg v0. -> r2
v7 = exp v6. -> r2
v8 = add v4 v7. -> r2
v9 = div v4. v8. -> r2
v10 = mul v9. v3. -> r0
give v5 v10
`
	if p.String() != want {
		t.Errorf("expected\n%sfound\n%s", want, p)
	}
	p = Linearize(func(op Op) bool { return op == OpSigmoid }, Mul(Sigmoid(x), y))
	if len(p.Code) != 4 || p.Code[1].Op != OpSigmoid || p.Inputs != 2 {
		t.Errorf("%v", p)
	}
	sum := x // a + (b + (c + …)) takes one register where the last is computed first
	for range 20 {
		sum = Add(x, sum)
	}
	if n := Linearize(nil, sum).Slots; n != 1 {
		t.Errorf("a chain takes %d registers", n)
	}
	if a, b := Linearize(nil, sum).String(), Linearize(nil, sum).String(); a != b {
		t.Error("the form changes")
	}
}

// TestMachine runs programs on slices of odd lengths, with operands repeated, in place and not, against points.
func TestMachine(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for k := range 600 {
		es := []Expr{random(r, 1+r.IntN(20), Ops()), random(r, 1+r.IntN(5), Ops()), Input(0), Const(3)}[:1+r.IntN(4)]
		p := Linearize(nil, es...)
		n := []int{0, 1, 2, 7, BlockSize - 1, BlockSize, BlockSize + 1, 2*BlockSize + 3}[k%8]
		in := make([][]float64, 3)
		single := r.IntN(4)
		for i := range in {
			in[i] = make([]float64, max(n, 1))
			if i == single {
				in[i] = in[i][:1]
			}
			for j := range in[i] {
				in[i][j] = point(r)[0]
			}
		}
		want, out := make([][]float64, len(es)), make([][]float64, len(es))
		for q, e := range es {
			out[q] = make([]float64, n)
			for j := range n {
				x := make([]float64, 3)
				for i := range x {
					x[i] = in[i][min(j, len(in[i])-1)]
				}
				if len(es) > 1 || n < 20 || j%31 == 0 {
					want[q] = append(want[q], e.At(x...))
				} else {
					want[q] = append(want[q], math.NaN())
				}
			}
		}
		if len(es) == 1 && single != 0 && n > 0 {
			out[0] = in[0][:n]
		}
		NewMachine(p, []int{n, 1 << 20, 5}[r.IntN(3)]).Run(n, out, in)
		for q := range es {
			for j := range n {
				if checked := len(es) > 1 || n < 20 || j%31 == 0; checked && !same(out[q][j], want[q][j]) {
					t.Fatalf("%v, element %d of %d: expected %v, found %v", es[q], j, n, want[q][j], out[q][j])
				}
			}
		}
	}
}

// TestMachineAllocates nothing after the first run.
func TestMachineAllocates(t *testing.T) {
	m := NewMachine(Linearize(nil, Add(GeluTanh(Input(0)), Input(1))), 1000)
	in, out := [][]float64{make([]float64, 1000), {2}}, [][]float64{make([]float64, 1000)}
	if n := testing.AllocsPerRun(10, func() { m.Run(1000, out, in) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkMachine(b *testing.B) {
	x, y := Input(0), Input(1)
	for _, c := range []struct {
		name string
		e    Expr
		f    func(x, y float64) float64
	}{
		{"add", Add(x, y), func(x, y float64) float64 { return x + y }},
		{"relu", Relu(x), func(x, _ float64) float64 {
			if x < 0 {
				return 0
			}
			return x
		}},
		{"exp", Exp(x), func(x, _ float64) float64 { return math.Exp(x) }},
		{"gelutanh", GeluTanh(x), func(x, _ float64) float64 {
			return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		}},
	} {
		const n = 1 << 14
		in, out := [][]float64{make([]float64, n), make([]float64, n)}, [][]float64{make([]float64, n)}
		for i := range n {
			in[0][i], in[1][i] = math.Sin(float64(i)), 1
		}
		b.Run(c.name+"/blocks", func(b *testing.B) {
			m := NewMachine(Linearize(nil, c.e), n)
			for b.Loop() {
				m.Run(n, out, in)
			}
		})
		b.Run(c.name+"/calls", func(b *testing.B) {
			for b.Loop() {
				for i := range out[0] {
					out[0][i] = c.f(in[0][i], in[1][i])
				}
			}
		})
	}
}
