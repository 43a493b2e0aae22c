package irview

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// table holds each text and each node of all columns once. Nodes that are equal in two columns have the same number, so
// that a comparison of graphs is one of numbers.
type table struct {
	strings []string
	index   map[string]int
	records []record
	known   map[string]int
	tensors map[*tensor.Tensor]int
}

// record is a node as the page shows it. Numbers are those of texts.
type record struct {
	Op    int   `json:"o"`
	Name  int   `json:"n,omitempty"`
	Scope int   `json:"s,omitempty"`
	Role  int   `json:"r,omitempty"` // 0: a node
	In    []int `json:"i,omitempty"` // names; -1: absent; -2-k: text k, of a constant
	Out   []int `json:"u,omitempty"` // names and types in turn; -1: absent
	Attrs []int `json:"a,omitempty"` // names and values in turn
}

// Roles of records that are not nodes.
const (
	roleNode = iota
	roleInput
	roleOutput
	roleGraph // a frame around a subgraph
	roleOuter // a value of a graph around the subgraph
	roleUndefined
)

func newTable() *table {
	t := &table{index: map[string]int{}, known: map[string]int{}, tensors: map[*tensor.Tensor]int{}}
	t.text("")
	return t
}

// text returns the number of a text.
func (t *table) text(s string) int {
	s = clean(s)
	i, ok := t.index[s]
	if !ok {
		i = len(t.strings)
		t.index[s] = i
		t.strings = append(t.strings, s)
	}
	return i
}

// add returns the number of a record. Equal ones have the same number, if mark is equal too.
func (t *table) add(r record, mark string) int {
	key := fmt.Sprint(r.Op, r.Name, r.Scope, r.Role, r.In, r.Out, r.Attrs, mark)
	i, ok := t.known[key]
	if !ok {
		i = len(t.records)
		t.known[key] = i
		t.records = append(t.records, r)
	}
	return i
}

// node returns the record of a node.
func (t *table) node(n *ir.Node) int {
	r := record{Op: t.text(opName(n)), Name: t.text(n.Name), Scope: t.text(n.Scope)}
	for _, v := range n.Inputs {
		r.In = append(r.In, t.input(v))
	}
	for _, v := range n.Outputs {
		if v == nil {
			r.Out = append(r.Out, -1, -1)
			continue
		}
		r.Out = append(r.Out, t.text(v.Name), t.text(typeOf(v)))
	}
	var mark strings.Builder
	if n.Op != nil {
		fmt.Fprint(&mark, n.Op.Since)
	}
	for _, a := range n.Attrs {
		r.Attrs = append(r.Attrs, t.text(a.Name), t.text(attribute(a.Value)))
	}
	for _, g := range n.Subgraphs() {
		for _, m := range g.Nodes {
			fmt.Fprint(&mark, " ", t.node(m))
		}
		for _, v := range g.Outputs {
			fmt.Fprint(&mark, " ", t.input(v))
		}
	}
	if n.Op != nil && n.Op.Since > 0 && n.Op.Domain == "" {
		r.Attrs = append(r.Attrs, t.text("(opset)"), t.text(strconv.Itoa(n.Op.Since)))
	}
	return t.add(r, mark.String())
}

// inputRecord, outputRecord return the records of a graph's input and output.
func (t *table) inputRecord(v *ir.Value) int {
	return t.add(record{Op: t.text("input"), Role: roleInput, Out: []int{t.text(v.Name), t.text(typeOf(v))}}, "")
}

func (t *table) outputRecord(v *ir.Value) int {
	return t.add(record{Op: t.text("output"), Role: roleOutput, In: []int{t.input(v)}}, "")
}

// input returns how a record names what a node reads.
func (t *table) input(v *ir.Value) int {
	switch {
	case v == nil:
		return -1
	case v.Init != nil:
		return -2 - t.text(parameterText(v))
	case v.Const == nil:
		return t.text(v.Name)
	}
	return -2 - t.text(v.Name+": "+typeOf(v)+elements(v.Const)+t.version(v.Const))
}

// version tells constants of one name apart that differ only in their content, which may be large.
func (t *table) version(k *tensor.Tensor) string {
	if k.Len() <= shownElements {
		return ""
	}
	i, ok := t.tensors[k]
	if !ok {
		i = len(t.tensors) + 1
		t.tensors[k] = i
	}
	return " #" + strconv.Itoa(i)
}

// shownElements is the number of elements up to which the content of a constant is shown.
const shownElements = 8

// elements returns " = [1, 2]" for small constants.
func elements(k *tensor.Tensor) string {
	if k.Len() > shownElements {
		return ""
	}
	var parts []string
	if s := k.Strings(); s != nil {
		for _, x := range s {
			parts = append(parts, strconv.Quote(limit(x, 40)))
		}
	} else if v, err := k.Float64s(); err == nil {
		for _, x := range v {
			parts = append(parts, strconv.FormatFloat(x, 'g', 6, 64))
		}
	} else {
		return ""
	}
	text := strings.Join(parts, ", ")
	if k.Rank() > 0 {
		text = "[" + text + "]"
	}
	return " = " + text
}

// limit cuts a text off behind n characters.
func limit(s string, n int) string {
	for i := range s {
		if n--; n < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// attribute returns the value of an attribute as text, cut off if it is long.
func attribute(v any) string {
	switch v := v.(type) {
	case *ir.Graph:
		return "graph"
	case []*ir.Graph:
		return fmt.Sprintf("%d graphs", len(v))
	case *tensor.Tensor:
		if v == nil {
			return "none"
		}
		return ir.Of(v).String() + elements(v)
	case []*tensor.Tensor:
		return fmt.Sprintf("%d tensors", len(v))
	case string:
		return limit(strconv.Quote(v), 200)
	case float64:
		return strconv.FormatFloat(v, 'g', 9, 64)
	}
	return limit(fmt.Sprint(v), 200)
}

func opName(n *ir.Node) string {
	if n.Op == nil {
		return "?"
	}
	return n.Op.FullName()
}
