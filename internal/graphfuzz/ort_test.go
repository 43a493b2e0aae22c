package graphfuzz

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/essmc/essmc/frontend/onnx"
	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

//go:embed testdata/ort.py
var ortScript string

// engine is ONNX Runtime, in a process of Python that answers one graph after the other.
type engine struct {
	python   string
	coverage *Coverage

	mu     sync.Mutex
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
}

// newEngine returns the engine of ESSMC_PYTHON, which names a Python with onnxruntime and numpy. A test without it is
// skipped.
func newEngine(t *testing.T, c *Coverage) *engine {
	t.Helper()
	python := shared.Python(t, "onnxruntime", "numpy")
	e := &engine{python: python, coverage: c}
	t.Cleanup(func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.stop()
	})
	return e
}

func (e *engine) start() error {
	if e.cmd != nil {
		return nil
	}
	cmd := exec.Command(e.python, "-c", ortScript)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	e.cmd, e.stdin, e.stdout = cmd, in, bufio.NewReader(out)
	return nil
}

func (e *engine) stop() {
	if e.cmd != nil {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
		e.cmd = nil
	}
}

// numpyNames are the names of the element types that both sides have.
var numpyNames = map[tensor.DType]string{tensor.Float32: "float32", tensor.Float64: "float64", tensor.Float16: "float16",
	tensor.Int8: "int8", tensor.Int16: "int16", tensor.Int32: "int32", tensor.Int64: "int64", tensor.Uint8: "uint8",
	tensor.Uint16: "uint16", tensor.Uint32: "uint32", tensor.Uint64: "uint64", tensor.Bool: "bool"}

// differs lists the operators whose answers by ONNX Runtime cannot be used as a reference, with the reason.
var differs = map[string]string{
	"AffineGrid":                "of an axis of one element with align_corners it is 0, the standard divides by 0",
	"BatchNormalization":        "in training it writes to the running statistics that it still reads",
	"BlackmanWindow":            "it computes in float32, whatever the type",
	"Celu":                      "it loses digits near 0",
	"Col2Im":                    "of one axis, with pads that differ and dilations, it adds to elements twice",
	"ConvTranspose":             "auto_pad does not make the size that the standard states",
	"DFT":                       "the inverse of a half spectrum takes it for a whole one",
	"Dropout":                   "where nothing is dropped, its mask says that nothing is kept",
	"Elu":                       "it loses digits near 0",
	"Gelu":                      "its constants are of float32, whatever the type",
	"GridSample":                "cubic weights of a constant at a border do not sum up to one",
	"GroupNormalization":        "it computes in float32, whatever the type",
	"HammingWindow":             "it computes in float32, whatever the type",
	"HannWindow":                "it computes in float32, whatever the type",
	"MaxUnpool":                 "indices are of the larger output, the standard has them of the one without pads",
	"MeanVarianceNormalization": "it has no epsilon",
	"NonZero":                   "the rank of a scalar is 1",
	"OneHot":                    "it does not convert indices of floats to integers",
	"OneHotEncoder":             "of a category that is stated twice it marks the last place",
	"ReduceLogSum":              "of integers, the rounding is open",
	"ReduceLogSumExp":           "of integers, the rounding is open",
	"Resize":                    "it computes positions in float32",
	"Shrink":                    "it computes in float32, whatever the type",
	"Sigmoid":                   "it is 0 below -18",
	"TreeEnsemble":              "it takes SOFTMAX and LOGISTIC of post_transform for each other",
}

// flags are attributes that are 0 or 1. What others mean is open.
var flags = []string{"keepdims", "noop_with_empty_axes", "exclusive", "reverse", "select_last_index", "training_mode",
	"transA", "transB", "largest", "sorted", "count_include_pad", "ceil_mode", "is_causal", "inverse", "onesided", "upper",
	"allowzero", "layout", "input_forget", "linear_before_reset", "stash_type", "saturate", "align_corners", "interleaved",
	"center_point_box", "exclude_outside", "antialias", "fmod", "channels_last", "input_as_shape"}

// divides reports whether a divisor may be 0: it is computed, or has a 0.
func divides(v *ir.Value, in Data) bool {
	if v == nil {
		return false
	}
	var d tensor.Datum = v.Const
	if v.Const == nil {
		d = in[v.Name]
	}
	t, ok := d.(*tensor.Tensor)
	return !ok || slices.Contains(reals(t), 0)
}

// unmeasured reports whether a graph has nodes whose answers cannot be used as a reference for these inputs.
func unmeasured(g *ir.Graph, in Data) bool {
	return g.Walk(func(_ *ir.Graph, n *ir.Node) error {
		if n.Op.Domain != "" && n.Op.Domain != "ai.onnx.ml" || differs[n.Op.Name] != "" {
			return errFound
		}
		switch {
		case n.Op.Name == "Pow" && n.In(0) != nil && !n.In(0).Elem().IsFloat(): // powers that are not integers of the type
			return errFound
		case n.Op.Name == "Pad" && n.Attrs.Str("mode", "") == "wrap": // whether negative pads come first is open
			return errFound
		case n.Op.Name == "TopK" && n.Attrs.Int("sorted", 1) == 0: // the order is open
			return errFound
		case n.Op.Name == "QuantizeLinear" && divides(n.In(1), in): // by a scale of 0 it gives 0
			return errFound
		}
		for _, v := range slices.Concat(n.Inputs, n.Outputs) {
			if v != nil && v.Const != nil && !plainNumbers(v.Const) {
				return errFound
			}
		}
		for _, a := range n.Attrs {
			if a.Name == "activations" { // the standard states no default for the parameters of most
				return errFound
			}
			if k, ok := a.Value.(int64); ok && slices.Contains(flags, a.Name) && k != 0 && k != 1 {
				return errFound
			}
		}
		return nil
	}) != nil
}

// Disagrees implements Checker.Other.
func (e *engine) Disagrees(g *ir.Graph, want *expectation) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if unmeasured(g, want.in) {
		return ""
	}
	for _, all := range []Data{want.in, want.wide} {
		for _, d := range all {
			if !plainNumbers(d) {
				return ""
			}
		}
	}
	if !finite(g, want.in) {
		return ""
	}
	var model bytes.Buffer
	if err := onnx.Write(&model, g, onnx.WriteOptions{}); err != nil {
		return ""
	}
	got, err := e.answer(g, model.Bytes(), want.in)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		e.coverage.note("ONNX Runtime refuses")
		return ""
	case err != nil:
		e.coverage.note("ONNX Runtime ends")
		e.stop()
		return ""
	case got == nil:
		return ""
	}
	e.coverage.note("ONNX Runtime answers")
	return want.judge(got, nil, false)
}

// plainNumbers reports whether a datum is a tensor, not empty, of numbers that all types hold. How ONNX Runtime treats
// empty tensors, NaN and conversions that overflow differs by kernel.
func plainNumbers(d tensor.Datum) bool {
	t, ok := d.(*tensor.Tensor)
	return ok && t.Len() > 0 && numpyNames[t.DType()] != "" && !slices.ContainsFunc(reals(t), func(v float64) bool {
		return math.IsNaN(v) || math.Abs(v) > 1e9
	})
}

// refusal is an error of the engine.
type refusal struct{ msg string }

func (r *refusal) Error() string { return r.msg }

// answer returns the engine's outputs, or nil if inputs or outputs are not arrays of numbers.
func (e *engine) answer(g *ir.Graph, model []byte, in Data) (Data, error) {
	var b []byte
	number := func(n int) { b = binary.LittleEndian.AppendUint32(b, uint32(n)) }
	block := func(p []byte) { number(len(p)); b = append(b, p...) }
	block(model)
	number(len(in))
	for _, name := range names(in) {
		t, ok := in[name].(*tensor.Tensor)
		if !ok || numpyNames[t.DType()] == "" {
			return nil, nil
		}
		block([]byte(name))
		block([]byte(numpyNames[t.DType()]))
		number(t.Rank())
		for _, n := range t.Shape() {
			number(n)
		}
		block(t.Bytes())
	}
	if err := e.start(); err != nil {
		return nil, err
	}
	late := time.AfterFunc(runTime, func() { _ = e.cmd.Process.Kill() })
	defer late.Stop()
	if _, err := e.stdin.Write(b); err != nil {
		return nil, err
	}
	r := reader{Reader: e.stdout}
	if r.number() != 0 {
		msg := string(r.block())
		if r.err != nil {
			return nil, r.err
		}
		return nil, &refusal{msg}
	}
	if n := r.number(); r.err == nil && n != len(g.Outputs) {
		return nil, fmt.Errorf("expected %d outputs, found %d", len(g.Outputs), n)
	}
	out := Data{}
	for _, v := range g.Outputs {
		kind := string(r.block())
		shape := make([]int, r.number())
		for i := range shape {
			shape[i] = r.number()
		}
		raw := r.block()
		if r.err != nil {
			return nil, r.err
		}
		for d, name := range numpyNames {
			if name == kind {
				t := tensor.New(d, shape...)
				copy(t.Bytes(), raw)
				out[v.Name] = t
			}
		}
	}
	return out, r.err
}

// reader reads numbers and blocks until the first error.
type reader struct {
	io.Reader
	err error
}

func (r *reader) bytes(n int) []byte {
	b := make([]byte, n)
	if r.err == nil {
		_, r.err = io.ReadFull(r.Reader, b)
	}
	if r.err != nil {
		return make([]byte, n)
	}
	return b
}

func (r *reader) number() int   { return int(binary.LittleEndian.Uint32(r.bytes(4))) }
func (r *reader) block() []byte { return r.bytes(r.number()) }

// TestONNXRuntime asks ONNX Runtime about the cases of some seeds.
func TestONNXRuntime(t *testing.T) {
	var c Checker
	c.Other = newEngine(t, &c.Coverage)
	for seed := range uint64(150) {
		if r := c.Hunt(seed, 20*time.Second, nil); r != nil {
			t.Errorf("seed %d: %s\n%s", seed, r.Finding, textOf(r))
		}
	}
	if s := c.Coverage.String(); !strings.Contains(s, "ONNX Runtime answers") {
		t.Errorf("it has answered nothing:\n%s", s)
	}
}
