package command

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// TestRandomDatum checks that there are random inputs of every type, and that equal seeds give equal ones.
func TestRandomDatum(t *testing.T) {
	made := func(typ ir.Type) tensor.Datum {
		d, err := randomDatum(rand.New(rand.NewPCG(1, 2)), typ, map[string]int64{"L": 5}, 100)
		if err != nil {
			t.Fatalf("%v: %v", typ, err)
		}
		return d
	}
	for _, elem := range tensor.DTypes() {
		typ := ir.Tensor(elem, "L", 3)
		x := made(typ).(*tensor.Tensor)
		if x.DType() != elem || x.Dim(0) != 5 || x.Dim(1) != 3 || !tensor.Equal(x, made(typ).(*tensor.Tensor)) {
			t.Errorf("%v: found %s", typ, x)
		}
		if equal := tensor.Equal(x, tensor.New(elem, 5, 3)); equal {
			t.Errorf("%v: all are 0", typ)
		}
	}
	if s := made(&ir.SequenceType{Elem: ir.Tensor(tensor.Float32, 2)}).(*tensor.Sequence); len(s.Items) != randomItems {
		t.Errorf("a sequence of %d", len(s.Items))
	}
	for want, typ := range map[string]ir.Type{
		"unknown size: float[]":   &ir.TensorType{Elem: tensor.Float32, NoRank: true},
		"dimension 0 of float[?]": ir.Tensor(tensor.Float32, ir.Unknown),
		"dimension 0 of float[M]": ir.Tensor(tensor.Float32, "M"),
		"does not fit":            ir.Tensor(tensor.Float32, int64(1<<40), int64(1<<40)),
	} {
		if _, err := randomDatum(rand.New(rand.NewPCG(1, 2)), typ, nil, 1); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, expected %s", typ, err, want)
		}
	}
}

// TestFeedONNX checks that sound and numbers fit inputs without a dimension of features, and scalars.
func TestFeedONNX(t *testing.T) {
	onnxFixtures(t)
	writeBytes(t, "vad.onnx", pbModel(pbNode("Mul", "wave gain", "y"), pbValue(11, "wave", tensor.Float32, "B", "L"),
		pbValue(11, "gain", tensor.Float32), pbValue(12, "y", tensor.Float32, "B", "L")))
	write(t, "word.csv", tensor.FromSlice([]float64{1, 2, 4}, 1, 3))
	write(t, "half.csv", tensor.FromSlice([]float64{0.5}, 1, 1))
	must(t, "run", "vad.onnx", "-i", "wave=word.csv", "-i", "gain=half.csv", "-o", "y.npy")
	if got, want := read(t, "y.npy"), tensor.FromSlice([]float32{0.5, 1, 2}, 1, 3); !tensor.Equal(got, want) {
		t.Errorf("found %v", tensor.Data[float32](got))
	}
	writeWav(t, "word.wav", 1, 4)
	must(t, "run", "vad.onnx", "-i", "wave=word.wav", "-i", "gain=half.csv", "-o", "y.npy")
	if got := read(t, "y.npy"); got.Dim(0) != 1 || got.Dim(1) != 4 {
		t.Errorf("found %s", got)
	}
}
