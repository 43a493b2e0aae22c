package spectral

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	_ "github.com/essmc/essmc/ops/essm" // its domain
)

// MaxCondition is the largest condition number that Diagonalize accepts by default. The condition number bounds the
// growth of rounding errors. Data is float32 with a rounding unit of 6e-8, so the error is 6e-5 at worst, and far less
// as a rule. Beyond it the full form is better.
const MaxCondition = 1e3

// maxResidual bounds A T - T Λ, relative to A, far above rounding. A larger residual means that the solver failed.
const maxResidual = 1e-10

// Diagonalize computes the diagonal form of a system with a full matrix A.
var Diagonalize = ops.Register(&ir.Op{
	Domain: "essm", Name: "Diagonalize",
	Doc: `The system x' = A x + B u, y = C x in the coordinates z = T⁻¹x in which A is diagonal (docs/math.md,
Diagonalization). Rows of B and columns of C for real eigenvalues stay real. Of a conjugate pair one is kept, with a complex
row of B and a complex, doubled column of C, so y = Re(C z). Heads that keep fewer eigenvalues are padded with states of
λ = -1, for which B and C are 0. z = to·x, and x = from_re·Re z + from_im·Im z. Evaluation fails if the condition number
of T, in the 2-norm, is above max_condition.`,
	In: ops.Sig("a:T[C,S,n,n]", "B:W[C,S,n,h]", "C:V[C,S,m,n]"),
	Out: ops.Sig("re:float64[C,S,_]", "im:float64[C,S,_]", "B_re:float64[C,S,_,h]", "B_im:float64[C,S,_,h]",
		"C_re:float64[C,S,m,_]",
		"C_im:float64[C,S,m,_]", "to_re:float64[C,S,_,n]?", "to_im:float64[C,S,_,n]?", "from_re:float64[C,S,n,_]?",
		"from_im:float64[C,S,n,_]?"),
	Elems: map[string][]tensor.DType{"T": ops.Floats, "W": ops.Floats, "V": ops.Floats},
	Attrs: []ir.AttrSpec{{Name: "max_condition", Kind: ir.AttrFloat, Default: MaxCondition,
		Doc: "largest condition number of T that is accepted"}},
	Eval: evalDiagonalize, Linear: ops.LinearIn([]int{1, 2}),
	Cost: func(n *ir.Node, bind map[string]int64) ir.Work {
		shape := make([]int, 4)
		for i := range shape {
			shape[i] = int(ops.DimAt(n.In(0), i, bind))
		}
		h, m := ops.DimAt(n.In(1), 3, bind), ops.DimAt(n.In(2), 2, bind)
		return ir.Work{Flops: Work(shape) + 16*int64(shape[0]*shape[1]*shape[3]*shape[3])*(h+m),
			Bytes: ops.BytesOf(n, bind)}
	},
	NoGradient: "is made by a pass, after gradients are taken",
	Tol:        ir.Long,
})

func evalDiagonalize(c *ir.EvalCtx, in []tensor.Datum) ([]tensor.Datum, error) {
	b, cm := ops.Tensor(in, 1), ops.Tensor(in, 2)
	eigens, err := decomposeAll(c, ops.Tensor(in, 0), nil, nil)
	if err != nil {
		return nil, err
	}
	k, limit := 0, c.Node.Attrs.Float("max_condition", MaxCondition)
	for i, e := range eigens {
		c.Step(1)
		if !(e.Condition <= limit) {
			return nil, fmt.Errorf("head %d: expected eigenvectors of a condition number of at most %.3g, found %.3g",
				i, limit, e.Condition)
		}
		if !(e.Residual <= maxResidual) {
			return nil, fmt.Errorf("head %d: expected eigenvectors with a residual of at most %g, found %.3g", i,
				maxResidual, e.Residual)
		}
		k = max(k, len(e.kept()))
	}
	shape := ops.Tensor(in, 0).Shape()
	n, h, m := shape[3], b.Dim(3), cm.Dim(2)
	heads := len(eigens)
	s := &system{n: n, h: h, m: m, k: k, b: ops.F64(c, in, 1), c: ops.F64(c, in, 2)}
	s.lambda = make([]complex128, heads*k)
	s.bOut, s.cOut = make([]complex128, heads*k*h), make([]complex128, heads*m*k)
	s.to, s.from = make([]complex128, heads*k*n), make([]complex128, heads*n*k)
	for i, e := range ops.All(c, eigens) {
		c.Step(k * (2*n + h*n + m*n))
		s.head(i, e)
	}
	var out []tensor.Datum
	add := func(z []complex128, dims ...int) {
		re, im := make([]float64, len(z)), make([]float64, len(z))
		for i, x := range ops.All(c, z) {
			re[i], im[i] = real(x), imag(x)
		}
		dims = append([]int{shape[0], shape[1]}, dims...)
		out = append(out, tensor.FromSlice(re, dims...), tensor.FromSlice(im, dims...))
	}
	add(s.lambda, k)
	add(s.bOut, k, h)
	add(s.cOut, m, k)
	add(s.to, k, n)
	add(s.from, n, k)
	return out, nil
}

// kept lists the eigenvalues of the diagonal form: the real ones, and the first of each pair.
func (e *Eigen) kept() []int {
	var out []int
	for i, v := range e.Values {
		if imag(v) >= 0 {
			out = append(out, i)
		}
	}
	return out
}

// system is the diagonal form of all heads under construction; matrices are laid out one head after the other.
type system struct {
	n, h, m, k         int
	b, c               []float64
	lambda, bOut, cOut []complex128
	to, from           []complex128
}

func (s *system) head(head int, e *Eigen) {
	n, h, m, k := s.n, s.h, s.m, s.k
	b, c := s.b[head*n*h:], s.c[head*m*n:]
	kept := e.kept()
	for j := len(kept); j < k; j++ {
		s.lambda[head*k+j] = -1
	}
	for j, i := range kept {
		v, times := e.Values[i], complex(2, 0)
		isReal := imag(v) == 0
		if isReal {
			times = 1
		}
		clean := func(z complex128) complex128 {
			if isReal { // the imaginary part is rounding
				return complex(real(z), 0)
			}
			return z
		}
		s.lambda[head*k+j] = v
		for q := range n {
			s.to[(head*k+j)*n+q] = clean(e.Inverse[i*n+q])
			t := times * clean(e.T[q*n+i])
			s.from[(head*n+q)*k+j] = complex(real(t), -imag(t)) // x = Re(T z), as two real products
		}
		for p := range h {
			var sum complex128
			for q := range n {
				sum += e.Inverse[i*n+q] * complex(b[q*h+p], 0)
			}
			s.bOut[(head*k+j)*h+p] = clean(sum)
		}
		for p := range m {
			var sum complex128
			for q := range n {
				sum += complex(c[p*n+q], 0) * e.T[q*n+i]
			}
			s.cOut[(head*m+p)*k+j] = times * clean(sum)
		}
	}
}

// Work returns the operations of decomposing matrices of shape (…, n, n), about.
func Work(shape []int) int64 {
	work := int64(200)
	for _, d := range append(shape[:len(shape):len(shape)], shape[len(shape)-1]) {
		if d > 0 && work > math.MaxInt64/int64(d) {
			return math.MaxInt64
		}
		work *= int64(d)
	}
	return work
}

// decomposeAll decomposes every head of a tensor (C, S, n, n), equal matrices once. Each decomposition spends its Work
// from the budget. Then each, if not nil, is called, and ends the work if it returns false.
func decomposeAll(c *ir.EvalCtx, a *tensor.Tensor, budget *ir.Budget, each func(head int, e *Eigen) bool) ([]*Eigen,
	error) {
	if a == nil || a.Rank() != 4 || a.Dim(2) != a.Dim(3) {
		return nil, fmt.Errorf("A: expected (channels, heads, n, n), found %s", a)
	}
	v, err := ops.Float64s(c, a)
	if err != nil {
		return nil, fmt.Errorf("A: %w", err)
	}
	n := a.Dim(3)
	out := make([]*Eigen, a.Dim(0)*a.Dim(1))
	known := map[[sha256.Size]byte]*Eigen{}
	bits := make([]byte, 8*n*n)
	for i := range ops.Costly(c, len(out), 8*n*n) {
		m := v[i*n*n : (i+1)*n*n]
		for j, x := range m {
			binary.LittleEndian.PutUint64(bits[8*j:], math.Float64bits(x))
		}
		key := sha256.Sum256(bits)
		if out[i] = known[key]; out[i] != nil {
			continue
		}
		if err := budget.Spend(Work([]int{n, n})); err != nil {
			return nil, err
		}
		c.Step(100 * n * n * n)
		if out[i], err = Decompose(m, n); err != nil {
			return nil, fmt.Errorf("A: head %d: %w", i, err)
		}
		if known[key] = out[i]; each != nil && !each(i, out[i]) {
			break
		}
	}
	return out, nil
}

// Condition returns the largest condition number of the eigenvectors over the heads of A (C, S, n, n), and the head
// that has it, counted over channels and heads. The first head above MaxCondition ends the search, as it is decisive.
// Each decomposition spends its Work from the budget. Condition ends between two heads when ctx is done.
func Condition(ctx context.Context, a *tensor.Tensor, budget *ir.Budget) (largest float64, head int, err error) {
	defer func() {
		if v := recover(); v != nil {
			end, ok := v.(*ir.Ended)
			if !ok {
				panic(v)
			}
			largest, head, err = math.Inf(1), 0, end.Err
		}
	}()
	_, err = decomposeAll(&ir.EvalCtx{Ctx: ctx}, a, budget, func(i int, e *Eigen) bool {
		if e.Condition > largest || math.IsNaN(e.Condition) {
			largest, head = e.Condition, i
		}
		return largest <= MaxCondition
	})
	if err != nil {
		return math.Inf(1), 0, err
	}
	return largest, head, nil
}
