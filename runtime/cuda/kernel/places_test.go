package kernel_test

import (
	"fmt"
	"testing"

	"github.com/essmc/essmc/runtime/cuda/internal/kerneltest"
	"github.com/essmc/essmc/runtime/cuda/kernel"
)

func TestPlaces(t *testing.T) {
	axes := [][]int{{1, 0, 0}, {4, 4, 2, 3}, {0, 1, 2, 6, 5, 5, 0, 0, 1}}
	sizes := []int{2, 5, 7}
	x := far(2*5*7, 0)
	var want []float64
	for _, a := range axes[0] {
		for _, b := range axes[1] {
			for _, c := range axes[2] {
				want = append(want, float64(x[(a*5+b)*7+c]))
			}
		}
	}
	b := kerneltest.New(t)
	y := b.Out(4 * len(want))
	call, ok := kernel.Places(y, b.In(x), sizes, axes, memory(b).Constant)
	if !ok {
		t.Fatal(sizes)
	}
	b.Run(call)
	held(t, "places", b.Float32s(y), want, 0, 0)
}

func TestSubsetProducts(t *testing.T) {
	const batch, length, features, size = 2, 5, 67, 3
	x := far(batch*length*features, 1)
	subsets := []uint32{4, 3, 2, 4, 3, 1, 4, 2, 1, 3, 2, 1, 4, 3, 0}
	want := make([]float64, len(x))
	for i := range want {
		row, want1 := i/features%length, 1.0
		for _, from := range subsets[row*size : (row+1)*size] {
			want1 *= float64(x[(i/features/length*length+int(from))*features+i%features])
		}
		want[i] = want1
	}
	b := kerneltest.New(t)
	y := b.Out(4 * len(want))
	call, ok := kernel.SubsetProducts(y, b.In(x), b.In(subsets), batch, length, features, size)
	if !ok {
		t.Fatal("the shape is not taken")
	}
	b.Run(call)
	held(t, "products", b.Float32s(y), want, 1, 0)
}

func TestStepMask(t *testing.T) {
	const batch, length, features = 3, 11, 30
	x := far(batch*length*features, 1)
	for _, end := range [][]int64{nil, {9}, {40, 3, 12}, {5, -1, 5}} {
		b := kerneltest.New(t)
		y, fault := b.Out(4*len(x)), b.In([]int32{0})
		steps := []int64{0, 8, 4}
		m := kernel.StepMask{Y: y, X: b.In(x), Steps: b.In(steps), Fault: fault, Value: 7, Count: len(x), Axis: length, Inner: features,
			Batch: batch, SampleInner: length * features, Rate: 2, Offset: -1, Delay: 3}
		if end != nil {
			m.End, m.EndOne = b.In(end), len(end) == 1
		}
		call, ok := m.Call()
		if !ok {
			t.Fatal("the shape is not taken")
		}
		b.Run(call)
		want, refused := make([]float64, len(x)), int32(0)
		for i := range want {
			sample := i / features / length
			step := int(steps[sample])/2 + i/features%length - 3
			keep := step >= 0
			if end != nil {
				e := end[sample%len(end)]
				if e < 0 {
					refused = 1
				}
				keep = keep && e > 0 && step < (int(e)-1)/2
			}
			if want[i] = 7; keep {
				want[i] = float64(x[i])
			}
		}
		if got := b.Int32s(fault)[0]; got != refused {
			t.Errorf("end %v: the fault is %d", end, got)
		}
		if refused == 0 {
			held(t, fmt.Sprint("end ", end), b.Float32s(y), want, 0, 0)
		}
	}
}
