package open_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/essmc/essmc/frontend/arrays"
	"github.com/essmc/essmc/frontend/checkpoint/flaxfile"
	"github.com/essmc/essmc/frontend/checkpoint/safetensors"
	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/irtext"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
	"github.com/essmc/essmc/runtime/plan"
)

// TestByteOrder checks that every reader and writer of binary files refuses a machine that stores the most significant byte
// first, and no other machine. .ci/run runs it on an emulated s390x.
func TestByteOrder(t *testing.T) {
	want := tensor.CheckByteOrder()
	x := tensor.FromSlice([]float32{1, 2}, 2)
	b := ir.NewBuilder("g", ops.Default, ops.Opsets())
	b.Output("y", b.Op("", "Add", []*ir.Value{b.Input("x", ir.Of(x)), b.Const("w", x)}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	junk := bytes.NewReader([]byte("junk"))
	for name, f := range map[string]func() error{
		"onnx.Read":         func() error { _, _, err := onnx.Read(junk, 4, "m.onnx", onnx.Options{}); return err },
		"onnx.ParseDatum":   func() error { _, err := onnx.ParseDatum([]byte("junk"), "x.pb", ir.Of(x)); return err },
		"onnx.Write":        func() error { return onnx.Write(&bytes.Buffer{}, g, onnx.WriteOptions{}) },
		"plan.Read":         func() error { _, err := plan.Read(junk, 4, "m.essm", ops.Default, plan.Limits{}); return err },
		"plan.Write":        func() error { return plan.Write(&bytes.Buffer{}, g) },
		"safetensors.Read":  func() error { _, err := safetensors.Read(junk, 4, "m.safetensors"); return err },
		"safetensors.Write": func() error { return safetensors.Write(&bytes.Buffer{}, map[string]*tensor.Tensor{"x": x}, nil) },
		"torchfile.Read":    func() error { _, err := torchfile.Read(junk, 4, "m.pt"); return err },
		"flaxfile.Read":     func() error { _, err := flaxfile.Read([]byte("junk")); return err },
		"arrays.ReadNpy":    func() error { _, err := arrays.ReadNpy(bytes.NewReader([]byte("junk")), 4); return err },
		"arrays.WriteNpy":   func() error { return arrays.WriteNpy(&bytes.Buffer{}, x) },
		"irtext.Parse": func() error {
			_, err := irtext.Parse([]byte(`<ir_version: 10, opset_import: ["" : 22]> g () => () <float[2] w = ["location": "w.bin"]> {}`),
				"m.txt", ops.Default, irtext.Options{})
			return err
		},
	} {
		if err := f(); errors.Is(err, tensor.ErrByteOrder) != (want != nil) {
			t.Errorf("%s: expected %v, found %v", name, want, err)
		}
	}
}
