package opstest

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/ops"
)

// Cases compares single operators with the answers of another engine. The JSON file lists cases with name, domain,
// operator, version of its domain, attributes, inputs, the inputs that are constants, and outputs. Numbers that JSON
// does not have are strings ("nan", "inf"). An absent input or output is null. A case may widen the tolerance (rtol,
// atol), with the reason in "note".
func Cases(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var cases []oracleCase
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, c := range cases {
		t.Run(c.Name, c.run)
	}
}

type oracleCase struct {
	Name, Domain, Op string
	Version          int
	Attrs            map[string]jsonAttr
	Inputs           []*jsonTensor
	Consts           []int
	Outputs          []*jsonTensor
	Rtol, Atol       float64
	Note             string
}

type jsonAttr struct {
	Int     *int64
	Float   *jsonNumber
	String  *string
	Ints    []int64
	Floats  []jsonNumber
	Strings []string
	Tensor  *jsonTensor
}

type jsonTensor struct {
	Type  string
	Shape []int
	Data  []jsonNumber
	Text  []string
}

// jsonNumber is a number, or a string that names one that JSON cannot write.
type jsonNumber float64

func (n *jsonNumber) UnmarshalJSON(b []byte) error {
	s := string(b)
	if len(s) > 1 && s[0] == '"' {
		s = s[1 : len(s)-1]
	}
	v, err := strconv.ParseFloat(s, 64)
	*n = jsonNumber(v)
	return err
}

func (j *jsonTensor) tensor() (*tensor.Tensor, error) {
	d, err := tensor.ParseDType(j.Type)
	if err != nil {
		return nil, err
	}
	if d == tensor.String {
		return tensor.FromStrings(j.Text, j.Shape...), nil
	}
	v := make([]float64, len(j.Data))
	for i, x := range j.Data {
		v[i] = float64(x)
	}
	return tensor.FromFloat64s(d, v, j.Shape...)
}

func (a jsonAttr) value() (any, error) {
	switch {
	case a.Int != nil:
		return *a.Int, nil
	case a.Float != nil:
		return float64(float32(*a.Float)), nil
	case a.String != nil:
		return *a.String, nil
	case a.Ints != nil:
		return a.Ints, nil
	case a.Strings != nil:
		return a.Strings, nil
	case a.Tensor != nil:
		return a.Tensor.tensor()
	case a.Floats != nil:
		v := make([]float64, len(a.Floats))
		for i, x := range a.Floats {
			v[i] = float64(float32(x)) // as ONNX keeps them
		}
		return v, nil
	}
	return nil, fmt.Errorf("attribute has no value")
}

func (c oracleCase) run(t *testing.T) {
	op := ops.Default.Resolve(c.Domain, c.Op, c.Version)
	if op == nil {
		t.Fatalf("no operator %s in version %d of domain %q", c.Op, c.Version, c.Domain)
	}
	s := Sample{Consts: c.Consts, Outs: len(c.Outputs)}
	for name, a := range c.Attrs {
		v, err := a.value()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		s.Attrs = append(s.Attrs, ir.A(name, v))
	}
	for _, j := range c.Inputs {
		if j == nil {
			s.In = append(s.In, nil)
			continue
		}
		x, err := j.tensor()
		if err != nil {
			t.Fatal(err)
		}
		s.In = append(s.In, x)
	}
	for i, j := range c.Outputs {
		if j == nil {
			s.Absent = append(s.Absent, i)
		}
	}
	n := Plain(t, op, s)
	got, err := Eval(n, s.In, false)
	if err != nil {
		t.Fatal(err)
	}
	rtol, atol := max(c.Rtol, 1e-4), max(c.Atol, 1e-5)
	for i, j := range c.Outputs {
		if j == nil {
			continue
		}
		want, err := j.tensor()
		if err != nil {
			t.Fatal(err)
		}
		if err := Near(got[i], want, rtol, atol); err != nil {
			t.Errorf("output %d: %v", i, err)
		}
		if err := Fits(got[i], n.Outputs[i].Type); err != nil {
			t.Errorf("output %d: inferred %v: %v", i, n.Outputs[i].Type, err)
		}
	}
}
