package kernel_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
	"github.com/essmc/essmc/runtime/cuda/ptx"
)

// matrixOf is a stack of matrices of rows × inner numbers for tests, with its layout in memory.
type matrixOf struct {
	data           []float32
	at, row, inner int
	batch          []int
	rows, cols     int
}

// stack makes random matrices, with gap numbers between rows (columns if turned), and at numbers before the first.
func stack(r *rand.Rand, rows, cols int, turned bool, gap, at int, batch ...int) *matrixOf {
	m := &matrixOf{at: at, row: cols + gap, inner: 1, rows: rows, cols: cols}
	if turned {
		m.row, m.inner = 1, rows+gap
	}
	size := rows*(cols+gap) + cols*gap
	if turned {
		size = cols*(rows+gap) + rows*gap
	}
	size = (size + 3) / 4 * 4
	n := size
	m.batch = make([]int, len(batch))
	for i := len(batch) - 1; i >= 0; i-- {
		if batch[i] > 1 {
			m.batch[i] = n
		}
		n *= batch[i]
	}
	m.data = make([]float32, at+n)
	for i := range m.data {
		m.data[i] = float32(r.NormFloat64())
	}
	return m
}

func (m *matrixOf) get(index []int, i, j int) float64 {
	at := m.at + i*m.row + j*m.inner
	for d, x := range index {
		at += x * m.batch[d]
	}
	return float64(m.data[at])
}

func (m *matrixOf) matrix(b *kerneltest.Bench) kernel.Matrix {
	return kernel.Matrix{Buffer: b.In(m.data), At: m.at, Row: m.row, Inner: m.inner, Batch: m.batch}
}

type productCase struct {
	m, n, k        int
	batch          []int
	turnA, turnB   bool
	gap, at        int
	sharedB        bool // one B for the batch
	bias           bool
	gate, epilogue bool
	precision      kernel.Precision
	tile, split    int // tile -1: as it is chosen
	special        bool
}

func (c productCase) test(t *testing.T) {
	t.Helper()
	b := kerneltest.New(t)
	r := rand.New(rand.NewPCG(1, uint64(c.m*c.n+c.k)))
	ofB := c.batch
	if c.sharedB {
		ofB = make([]int, len(c.batch))
		for i := range ofB {
			ofB[i] = 1
		}
	}
	x := stack(r, c.m, c.k, c.turnA, c.gap, c.at, c.batch...)
	w := stack(r, c.n, c.k, c.turnB, c.gap, c.at, ofB...)
	if c.special {
		x.data[x.at] = float32(math.Inf(1))
		w.data[w.at+w.row] = math.MaxFloat32
	}
	columns := c.n
	if c.gate {
		columns /= 2
	}
	count := 1
	for _, d := range c.batch {
		count *= d
	}
	p := kernel.Product{M: c.m, N: c.n, K: c.k, Batch: c.batch, A: x.matrix(b), B: w.matrix(b), Precision: c.precision}
	p.C = kernel.Matrix{Buffer: b.Out(4 * count * c.m * columns), Row: columns, Inner: 1, Batch: make([]int, len(c.batch))}
	for i, n := len(c.batch)-1, c.m*columns; i >= 0; i-- {
		p.C.Batch[i] = n
		n *= c.batch[i]
	}
	bias := make([]float32, c.n)
	for i := range bias {
		bias[i] = float32(r.NormFloat64())
	}
	p.Alpha, p.Beta = 1, 1
	if c.bias {
		p.Alpha, p.Beta = -0.5, 3
		p.Bias = &kernel.Matrix{Buffer: b.In(bias), Inner: 1}
	}
	residual := make([]float32, count*c.m*columns)
	for i := range residual {
		residual[i] = float32(i)
	}
	if c.epilogue || c.gate {
		add := func(k *ptx.Kernel) kernel.Hook {
			from, width := k.PtrParam("residual"), k.U32Param("width")
			return func(_ *ptx.Kernel, row, col ptx.U32, x ...ptx.F32) ptx.F32 {
				if c.gate {
					x[0] = x[0].Mul(x[1])
				}
				return x[0].Add(from.Index(row.MAD(width, col), 4).LoadF32(0))
			}
		}
		p.Epilogue = &kernel.Epilogue{Begin: add, Pairs: c.gate,
			Args: []kernel.Arg{kernel.Ptr(b.In(residual)), kernel.U32(columns)}}
	}
	if c.tile < 0 {
		b.Run(p.Calls(b.Out)...)
	} else {
		b.Run(p.Cut(c.tile, max(1, c.split), b.Out)...)
	}
	got := b.Float32s(p.C.Buffer)
	tol := []float64{1e-6, 2e-3, 1.2e-2}[c.precision]
	index := make([]int, len(c.batch))
	at := 0
	for range count {
		of := index
		wIndex := index
		if c.sharedB {
			wIndex = make([]int, len(index))
		}
		for i := range c.m {
			sums, sizes := make([]float64, c.n), make([]float64, c.n)
			for j := range c.n {
				size := 0.0
				for l := range c.k {
					v := x.get(of, i, l) * w.get(wIndex, j, l)
					sums[j] += v
					size += math.Abs(v)
				}
				sums[j] *= float64(p.Alpha)
				if c.bias {
					sums[j] += float64(p.Beta) * float64(bias[j])
				}
				sizes[j] = size + 3
			}
			for j := range columns {
				want, size := sums[j], sizes[j]
				if c.gate {
					want = sums[2*j] * sums[2*j+1]
					size = sizes[2*j]*math.Abs(sums[2*j+1]) + sizes[2*j+1]*math.Abs(sums[2*j]) + 1
				}
				if c.epilogue || c.gate {
					want += float64(residual[at])
					size += math.Abs(float64(residual[at]))
				}
				y := float64(got[at])
				at++
				if math.Abs(want) > math.MaxFloat32 {
					if y != math.Copysign(math.Inf(1), want) {
						t.Fatalf("%+v: at %d: found %v, expected %v", c, at-1, y, want)
					}
				} else if math.IsNaN(want) != math.IsNaN(y) || !(math.Abs(y-want) <= tol*size) && !math.IsNaN(want) {
					t.Fatalf("%+v: at %d: found %v, expected %v: %.3g of the sum of sizes", c, at-1, y, want, math.Abs(y-want)/size)
				}
			}
		}
		for d := len(index) - 1; d >= 0; d-- {
			if index[d]++; index[d] < c.batch[d] {
				break
			}
			index[d] = 0
		}
	}
}

// Each tile, with either order of either matrix, aligned or not, at sizes that do not fit.
func TestProductTiles(t *testing.T) {
	for tile := range kernel.Tiles {
		t.Run(kernel.TileName(tile), func(t *testing.T) {
			for i := range 8 {
				c := productCase{m: 70, n: 75, k: 37, turnA: i&1 != 0, turnB: i&2 != 0, tile: tile, bias: i == 3}
				if i&4 != 0 {
					c.k, c.n, c.m = 40, 76, 68
				}
				c.test(t)
			}
		})
	}
}

func TestProduct(t *testing.T) {
	for _, c := range []productCase{
		{m: 1, n: 1, k: 1, tile: -1},
		{m: 3, n: 5, k: 7, tile: -1},
		{m: 17, n: 33, k: 1, tile: -1},
		{m: 33, n: 20, k: 64, bias: true, epilogue: true, tile: -1},
		{m: 33, n: 21, k: 65, at: 1, epilogue: true, tile: -1},
		{m: 20, n: 24, k: 30, gap: 3, at: 2, turnA: true, tile: -1},
		{m: 20, n: 24, k: 30, gap: 3, at: 2, turnB: true, tile: -1},
		{m: 20, n: 24, k: 30, gap: 2, tile: -1, gate: true, bias: true, epilogue: true},
		{m: 20, n: 26, k: 32, tile: -1, gate: true},
		{m: 12, n: 9, k: 18, batch: []int{2, 3}, tile: -1},
		{m: 12, n: 9, k: 18, batch: []int{2, 3}, sharedB: true, bias: true, epilogue: true, tile: -1},
		{m: 12, n: 9, k: 18, batch: []int{3}, gap: 2, sharedB: true, tile: -1},
		{m: 40, n: 40, k: 40, precision: kernel.TF32, tile: -1},
		{m: 40, n: 40, k: 72, precision: kernel.BF16, tile: -1},
		{m: 40, n: 40, k: 72, precision: kernel.BF16, turnA: true, turnB: true, tile: -1},
		{m: 20, n: 20, k: 600, tile: 5, split: 4, bias: true, epilogue: true},
		{m: 20, n: 20, k: 600, tile: 5, split: 3, gate: true, batch: []int{2}},
		{m: 16, n: 16, k: 1100, tile: -1},
		{m: 18, n: 20, k: 40, special: true, tile: -1},
		{m: 2, n: 20, k: 40, special: true, tile: -1},
		// Few rows.
		{m: 1, n: 256, k: 256, bias: true, tile: -1},
		{m: 1, n: 13, k: 259, at: 1, tile: -1},
		{m: 2, n: 14, k: 132, gap: 4, gate: true, epilogue: true, tile: -1},
		{m: 3, n: 13, k: 131, batch: []int{3}, bias: true, epilogue: true, tile: -1},
		{m: 8, n: 6, k: 200, turnA: true, tile: -1},
		{m: 7, n: 6, k: 3, tile: -1},
	} {
		t.Run(fmt.Sprintf("%dx%dx%d", c.m, c.n, c.k), func(t *testing.T) { c.test(t) })
	}
}
