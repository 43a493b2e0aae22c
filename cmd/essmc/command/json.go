package command

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/passes"
	"github.com/essmc/essmc/runtime"
)

// jsonVar adds the flag for objects in place of tables.
func jsonVar(cmd *cobra.Command, v *bool, usage string) {
	cmd.Flags().BoolVar(v, "json", false, usage)
}

// number is a number in JSON, which has neither NaN nor infinities: they are the texts "NaN", "Infinity" and
// "-Infinity".
type number float64

// MarshalJSON implements json.Marshaler.
func (n number) MarshalJSON() ([]byte, error) {
	switch x := float64(n); {
	case math.IsNaN(x):
		return []byte(`"NaN"`), nil
	case math.IsInf(x, 1):
		return []byte(`"Infinity"`), nil
	case math.IsInf(x, -1):
		return []byte(`"-Infinity"`), nil
	default:
		return json.Marshal(x)
	}
}

// single is a number that was computed in float32: it has as many digits as that needs.
type single float32

// MarshalJSON implements json.Marshaler.
func (n single) MarshalJSON() ([]byte, error) {
	if x := float64(n); math.IsNaN(x) || math.IsInf(x, 0) {
		return number(x).MarshalJSON()
	}
	return strconv.AppendFloat(nil, float64(n), 'g', -1, 32), nil
}

// runReport is what run --json writes.
type runReport struct {
	Model   string         `json:"model"`
	Device  string         `json:"device"`
	Outputs []outputReport `json:"outputs"`
}

// outputReport is an output of a run. Data are the elements row by row, or absent if they are in File.
type outputReport struct {
	Name  string          `json:"name"`
	Type  string          `json:"type"`
	Shape []int           `json:"shape,omitempty"`
	File  string          `json:"file,omitempty"`
	Data  any             `json:"data,omitempty"`
	Items []outputReport  `json:"items,omitempty"` // of a sequence
	Top   [][]classReport `json:"top,omitempty"`   // the highest classes of each sample, as in the table
}

type classReport struct {
	Class       int    `json:"class"`
	Name        string `json:"name,omitempty"`
	Value       number `json:"value"`
	Probability number `json:"probability"`
}

// outputJSON describes a datum.
func outputJSON(name string, d tensor.Datum) outputReport {
	switch d := d.(type) {
	case *tensor.Tensor:
		return outputReport{Name: name, Type: d.DType().String(), Shape: append([]int{}, d.Shape()...),
			Data: elementsJSON(d)}
	case *tensor.Sequence:
		r := outputReport{Name: name, Type: "sequence"}
		for _, item := range d.Items {
			r.Items = append(r.Items, outputJSON("", item))
		}
		return r
	case *tensor.Optional:
		if d != nil && d.Value != nil {
			return outputJSON(name, d.Value)
		}
	}
	return outputReport{Name: name, Type: "none"}
}

// elementsJSON returns the elements of a tensor as a list for JSON. Complex numbers are pairs.
func elementsJSON(t *tensor.Tensor) any {
	switch d := t.DType(); {
	case d == tensor.String:
		return append([]string{}, t.Strings()...)
	case d == tensor.Bool:
		return append([]bool{}, tensor.Data[bool](t)...)
	case d == tensor.Uint64:
		return append([]uint64{}, tensor.Data[uint64](t)...)
	case d.IsInt():
		v, _ := t.Int64s() // integers have no error
		return append([]int64{}, v...)
	case d.IsComplex():
		wide, err := t.Convert(tensor.Complex128, false)
		if err != nil {
			return nil
		}
		out := make([][2]number, 0, t.Len())
		for _, c := range tensor.Data[complex128](wide) {
			out = append(out, [2]number{number(real(c)), number(imag(c))})
		}
		return out
	case d == tensor.Float64:
		out := make([]number, 0, t.Len())
		for _, x := range tensor.Data[float64](t) {
			out = append(out, number(x))
		}
		return out
	}
	v, err := t.Float64s()
	if err != nil {
		return nil
	}
	out := make([]single, len(v))
	for i, x := range v {
		out[i] = single(x)
	}
	return out
}

// differenceReport is a difference in JSON.
type differenceReport struct {
	Error    number          `json:"error"` // relative to Scale
	Scale    number          `json:"scale"`
	At       json.RawMessage `json:"at"` // index of the largest difference
	Expected number          `json:"expected"`
	Found    number          `json:"found"`
}

func (d difference) report() differenceReport {
	at := json.RawMessage(d.at)
	if !json.Valid(at) {
		at = json.RawMessage("[]")
	}
	return differenceReport{number(d.relative), number(d.scale), at, number(d.want), number(d.found)}
}

// explainReport is what explain --json writes.
type explainReport struct {
	Model  string         `json:"model"`
	Kind   string         `json:"kind"`
	Passes []passReport   `json:"passes"`
	Device string         `json:"device"`
	Shape  string         `json:"shape"`
	Forms  []choiceReport `json:"forms"`
	// Error says why there are no forms.
	Error string `json:"error,omitempty"`
}

type passReport struct {
	Pass    string   `json:"pass"`
	Changes int      `json:"changes"`
	MS      number   `json:"ms,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	Misses  []string `json:"near_misses,omitempty"`
}

type choiceReport struct {
	Node   string       `json:"node"`
	Op     string       `json:"op"`
	Form   string       `json:"form"`
	Why    string       `json:"why,omitempty"`
	Cost   costReport   `json:"estimate"`
	Others []formReport `json:"others,omitempty"`
}

type formReport struct {
	Form string     `json:"form"`
	Why  string     `json:"why,omitempty"`
	Cost costReport `json:"estimate"`
}

type costReport struct {
	MS    float64 `json:"ms,omitempty"`
	Flops int64   `json:"flops,omitempty"`
	Bytes int64   `json:"bytes,omitempty"`
}

func costJSON(e runtime.Estimate) costReport {
	return costReport{float64(e.Time) / 1e6, e.Work.Flops, e.Bytes}
}

// passesJSON describes the passes that ran or, for a plan, those of its history.
func passesJSON(seen []passes.Snapshot, history []ir.Event) []passReport {
	list := []passReport{}
	add := func(name string, changes int, ms float64, notes []string) {
		r := passReport{Pass: name, Changes: changes, MS: number(ms)}
		for _, n := range notes {
			if isMiss(n) {
				r.Misses = append(r.Misses, n)
			} else {
				r.Notes = append(r.Notes, n)
			}
		}
		list = append(list, r)
	}
	for _, s := range seen {
		if s.Pass != nil {
			add(s.Pass.Name, s.Event.Changes, float64(s.Time)/1e6, s.Event.Notes)
		}
	}
	if len(list) == 0 {
		for _, e := range history {
			add(e.Pass, e.Changes, 0, e.Notes)
		}
	}
	return list
}

// formsJSON describes the choices of a backend.
func formsJSON(choices []runtime.Choice) []choiceReport {
	list := []choiceReport{}
	for _, c := range choices {
		r := choiceReport{Node: c.Node, Op: c.Op, Form: c.Form, Why: c.Why, Cost: costJSON(c.Cost)}
		for _, o := range c.Others {
			r.Others = append(r.Others, formReport{o.Form, o.Why, costJSON(o.Cost)})
		}
		list = append(list, r)
	}
	return list
}
