package irtext

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
)

// maker makes random verified graphs.
type maker struct {
	*rand.Rand
	ops   resolver
	names int
	// pool holds the constants, so that several nodes and graphs share some.
	pool []*ir.Value
}

var oddNames = []string{"x", "float", "seq", "inf", "nan", "a b", "layer.0/Mul:0", `q"uote`, `back\slash`, "ünï",
	"new\nline", "#no comment", "\x00\xff", "=>", "{", "7up", "_"}

func (m *maker) name() string {
	m.names++
	return fmt.Sprintf("%s_%d", oddNames[m.IntN(len(oddNames))], m.names)
}

func (m *maker) text() string {
	b := make([]byte, m.IntN(12))
	for i := range b {
		b[i] = byte(m.IntN(256))
	}
	return string(b) + oddNames[m.IntN(len(oddNames))]
}

func (m *maker) tensorType() *ir.TensorType {
	d := tensor.DTypes()
	t := &ir.TensorType{Elem: d[m.IntN(len(d))], Shape: ir.Shape{}}
	if m.IntN(8) == 0 {
		t.NoRank = true
		return t
	}
	for range m.IntN(4) {
		s := []string{"B", "L", "2*L+1", "?", "0", "7", "floordiv(L+1,2)", "max(B,L)", "B*L-3", "a.b#c", "-B+L*L"}
		e, err := ir.ParseDim(s[m.IntN(len(s))])
		if err != nil {
			panic(err)
		}
		t.Shape = append(t.Shape, e)
	}
	return t
}

func (m *maker) typ() ir.Type {
	switch m.IntN(6) {
	case 0:
		return &ir.SequenceType{Elem: m.typ()}
	case 1:
		return &ir.OptionalType{Elem: m.typ()}
	}
	return m.tensorType()
}

// tensor has random bits: every NaN, denormal and infinity occurs.
func (m *maker) tensor() *tensor.Tensor {
	d := tensor.DTypes()[m.IntN(len(tensor.DTypes()))]
	shape := make([]int, m.IntN(4))
	for i := range shape {
		shape[i] = m.IntN(6)
	}
	if m.IntN(10) == 0 {
		shape = []int{64 + m.IntN(3)}
	}
	t := tensor.New(d, shape...)
	for i := range t.Strings() {
		t.Strings()[i] = m.text()
	}
	b := t.Bytes()
	for i := range b {
		b[i] = byte(m.IntN(256))
		if d == tensor.Bool {
			b[i] &= 1
		}
	}
	if rest := t.Len() * d.Bits() % 8; rest != 0 {
		b[len(b)-1] &= 1<<rest - 1
	}
	if d == tensor.Float32 {
		odd := []uint32{0x7f800000, 0xff800000, 0x7fc00000, 0xffc00000, 0x7f800001, 0x80000000, 1, 0x7f7fffff, 0x3f800000}
		for i := range t.Len() {
			if m.IntN(2) == 0 {
				binary.LittleEndian.PutUint32(b[4*i:], odd[m.IntN(len(odd))])
			}
		}
	}
	return t
}

func (m *maker) float() float64 {
	odd := []float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(),
		math.Float64frombits(0xfff0000000000001), 1, 0.1, 1e21, 5e-324, math.MaxFloat64}
	if m.IntN(2) == 0 {
		return odd[m.IntN(len(odd))]
	}
	return math.Float64frombits(m.Uint64())
}

func repeat[T any](m *maker, f func() T) []T {
	out := make([]T, m.IntN(4))
	for i := range out {
		out[i] = f()
	}
	return out
}

func (m *maker) attr(kind ir.AttrKind, visible []*ir.Value, depth int) any {
	sub := func() *ir.Graph { return m.graph(visible, depth+1) }
	switch kind {
	case ir.AttrInt:
		return int64(m.Uint64())
	case ir.AttrFloat:
		return m.float()
	case ir.AttrString:
		return m.text()
	case ir.AttrTensor:
		return m.tensor()
	case ir.AttrGraph:
		return sub()
	case ir.AttrType:
		return m.typ()
	case ir.AttrInts:
		return repeat(m, func() int64 { return int64(m.Uint64()) })
	case ir.AttrFloats:
		return repeat(m, m.float)
	case ir.AttrStrings:
		return repeat(m, m.text)
	case ir.AttrTensors:
		return repeat(m, m.tensor)
	case ir.AttrGraphs:
		return repeat(m, sub)
	}
	return repeat(m, m.typ)
}

func (m *maker) graph(visible []*ir.Value, depth int) *ir.Graph {
	g := &ir.Graph{Name: oddNames[m.IntN(len(oddNames))]}
	if depth == 0 {
		g.Opsets = opsets
		g.Meta = map[string]string{}
	}
	if m.IntN(4) == 0 {
		g.Doc = m.text()
		g.Meta = map[string]string{m.text() + "1": m.text(), m.text() + "2": m.text()}
		g.History = []ir.Event{{Pass: m.text(), Changes: m.IntN(9), Notes: repeat(m, m.text)}, {Pass: "p"}}
	}
	visible = visible[:len(visible):len(visible)]
	if depth == 0 && m.IntN(2) == 0 {
		for range 1 + m.IntN(3) {
			g.Parameters = append(g.Parameters, ir.NewParameter(m.name(), m.tensor()))
		}
		visible = append(visible, g.Parameters...)
	}
	for range m.IntN(3) {
		v := &ir.Value{Name: m.name(), Type: m.typ()}
		g.Inputs = append(g.Inputs, v)
		visible = append(visible, v)
	}
	read := func() *ir.Value {
		switch k := m.IntN(10); {
		case k == 0:
			return nil
		case k < 4 && len(m.pool) > 0:
			return m.pool[m.IntN(len(m.pool))]
		case k == 4 || len(visible) == 0:
			m.pool = append(m.pool, ir.NewConst(m.name(), m.tensor()))
			return m.pool[len(m.pool)-1]
		}
		return visible[m.IntN(len(visible))]
	}
	for range m.IntN(5) {
		n := &ir.Node{Op: m.ops[[]string{"test/Gen", "com.test/Vague", "my-domain/an op"}[m.IntN(3)]],
			Inputs: repeat(m, read)}
		if m.IntN(2) == 0 {
			n.Name, n.Scope = m.text(), m.text()
		}
		for range m.IntN(3) {
			var v *ir.Value
			if m.IntN(6) > 0 {
				v = &ir.Value{Name: m.name(), Type: m.typ(), Def: n}
			}
			n.Outputs = append(n.Outputs, v)
		}
		for _, s := range specs() {
			if m.IntN(10) == 0 && (depth < 2 || s.Kind != ir.AttrGraph && s.Kind != ir.AttrGraphs) {
				n.Attrs = n.Attrs.With(s.Name, m.attr(s.Kind, visible, depth))
			}
		}
		var types []ir.Type
		for _, v := range n.Outputs {
			t := m.typ()
			if v != nil {
				t = v.Type
				if tt, ok := t.(*ir.TensorType); ok && m.IntN(3) == 0 { // less than the graph knows
					t = &ir.TensorType{Elem: tt.Elem, NoRank: true, Shape: ir.Shape{}}
				}
			}
			types = append(types, t)
		}
		n.Attrs = n.Attrs.With("types", types)
		g.Nodes = append(g.Nodes, n)
		for _, v := range n.Outputs {
			if v != nil {
				visible = append(visible, v)
			}
		}
	}
	for range m.IntN(4) {
		if v := read(); v != nil {
			g.Outputs = append(g.Outputs, v)
		}
	}
	for _, p := range g.Parameters {
		if m.IntN(2) == 0 {
			n := &ir.Node{Op: m.ops["/Same"], Inputs: []*ir.Value{p}}
			v := &ir.Value{Name: m.name(), Type: p.Type, Def: n}
			n.Outputs = []*ir.Value{v}
			g.Nodes, g.Outputs = append(g.Nodes, n), append(g.Outputs, v)
			g.Updates = slices.Insert(g.Updates, m.IntN(len(g.Updates)+1), ir.Update{Parameter: p, Output: v})
		}
	}
	return g
}

// same compares what the text must keep, independently of the printer; a and b are graphs of the same text.
func same(a, b *ir.Graph) error {
	var va, vb []*ir.Value
	var na, nb []*ir.Node
	gather := func(g *ir.Graph, vs *[]*ir.Value, ns *[]*ir.Node) {
		*vs = append(append(append(*vs, g.Inputs...), g.Parameters...), g.Outputs...)
		for _, u := range g.Updates {
			*vs = append(*vs, u.Parameter, u.Output)
		}
		_ = g.Walk(func(s *ir.Graph, n *ir.Node) error {
			*ns = append(*ns, n)
			*vs = append(append(*vs, n.Inputs...), n.Outputs...)
			for _, s := range n.Subgraphs() {
				*vs = append(append(*vs, s.Inputs...), s.Outputs...)
			}
			return nil
		})
	}
	gather(a, &va, &na)
	gather(b, &vb, &nb)
	if len(va) != len(vb) || len(na) != len(nb) {
		return fmt.Errorf("%d values and %d nodes, were %d and %d", len(vb), len(nb), len(va), len(na))
	}
	to := map[*ir.Value]*ir.Value{}
	for i, v := range va {
		w := vb[i]
		if (v == nil) != (w == nil) {
			return fmt.Errorf("value %d: one is absent", i)
		}
		if v == nil {
			continue
		}
		if old, ok := to[v]; ok && old != w {
			return fmt.Errorf("value %s became two", v.Name)
		}
		to[v] = w
		if v.Name != w.Name || !ir.EqualTypes(v.Type, w.Type) || !tensor.Equal(v.Const, w.Const) || !tensor.Equal(v.Init, w.Init) ||
			(v.Def == nil) != (w.Def == nil) {
			return fmt.Errorf("value %q %v became %q %v", v.Name, v.Type, w.Name, w.Type)
		}
	}
	for i, n := range na {
		m := nb[i]
		if n.Op != m.Op || n.Name != m.Name || n.Scope != m.Scope || len(n.Attrs) != len(m.Attrs) {
			return fmt.Errorf("node %v became %v", n, m)
		}
		for j, x := range n.Attrs {
			y := m.Attrs[j]
			if x.Name != y.Name || x.Kind() != y.Kind() {
				return fmt.Errorf("node %v: attribute %q became %q", n, x.Name, y.Name)
			}
			switch v := x.Value.(type) {
			case float64:
				if math.Float64bits(v) != math.Float64bits(y.Value.(float64)) {
					return fmt.Errorf("attribute %q: %x became %x", x.Name, v, y.Value)
				}
			case int64, string:
				if v != y.Value {
					return fmt.Errorf("attribute %q: %v became %v", x.Name, v, y.Value)
				}
			case *tensor.Tensor:
				if !tensor.Equal(v, y.Value.(*tensor.Tensor)) {
					return fmt.Errorf("attribute %q: tensor differs", x.Name)
				}
			}
		}
	}
	return nil
}

func TestRoundTripRandom(t *testing.T) {
	for seed := range uint64(300) {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, 1)), ops: testOps()}
		g := m.graph(nil, 0)
		if err := ir.Verify(g); err != nil {
			t.Fatalf("seed %d: the test's own graph: %v", seed, err)
		}
		for _, o := range []Options{{}, {Types: true}} {
			var text bytes.Buffer
			if err := Print(&text, g, o); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			back, err := Parse(text.Bytes(), "text", m.ops, Options{})
			if err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text.Bytes())
			}
			if err := same(g, back); err != nil {
				t.Fatalf("seed %d: %v\n%s", seed, err, text.Bytes())
			}
			var again bytes.Buffer
			if err := Print(&again, back, o); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if !bytes.Equal(text.Bytes(), again.Bytes()) {
				t.Fatalf("seed %d: printed\n%s\nand again\n%s", seed, text.Bytes(), again.Bytes())
			}
		}
	}
}

func TestRoundTripFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "model.txt")
	withData := 0
	for seed := range uint64(20) {
		m := &maker{Rand: rand.New(rand.NewPCG(seed, 2)), ops: testOps()}
		g := m.graph(nil, 0)
		if err := WriteFile(path, g); err != nil {
			t.Fatal(err)
		}
		back, err := ReadFile(path, m.ops, Options{})
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if err := same(g, back); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if String(g) != String(back) {
			t.Fatalf("seed %d: printed differently", seed)
		}
		data, err := filepath.Glob(filepath.Join(dir, "model-*.weights"))
		if err != nil || len(data) > 1 { // the previous graph's file is removed
			t.Fatalf("seed %d: %v, %v", seed, data, err)
		}
		withData += len(data)
	}
	empty := &ir.Graph{Name: "g", Opsets: map[string]int{"": 21}, Meta: map[string]string{}}
	if err := WriteFile(path, empty); err != nil {
		t.Fatal(err)
	}
	if withData < 2 || withData > 18 {
		t.Errorf("%d of 20 graphs had data beside the text", withData)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left in the folder: %v, %v", left, err)
	}
}

func TestDataAlignedAndShared(t *testing.T) {
	big := tensor.New(tensor.Float32, 100)
	b := ir.NewBuilder("g", testOps(), opsets)
	for _, name := range []string{"a", "b"} {
		b.Output(name, b.Op("", "Same", []*ir.Value{b.Const("w"+name, big)}))
	}
	b.Output("c", b.Op("", "Same", []*ir.Value{b.Const("wc", tensor.New(tensor.Int8, 65))}))
	g, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var text, data bytes.Buffer
	if err := Print(&text, g, Options{Data: &data, DataName: "d"}); err != nil {
		t.Fatal(err)
	}
	if data.Len() != 448+65 { // 400 bytes once, up to the next multiple of 64, then 65
		t.Errorf("data has %d bytes\n%s", data.Len(), text.Bytes())
	}
	text.Reset()
	data.Reset()
	if err := Print(&text, g, Options{Data: &data, DataName: "d", Inline: 100}); err != nil || data.Len() != 0 {
		t.Errorf("with Inline 100: %d bytes of data, %v", data.Len(), err)
	}
}

// Every pattern of the small formats, and what the text of some numbers is.
func TestElements(t *testing.T) {
	for _, c := range []struct {
		t    *tensor.Tensor
		want string
	}{
		{tensor.FromSlice([]float32{1, 0.1, 1e-7, float32(math.Inf(-1)), float32(math.Copysign(0, -1)), 16777216}, 6),
			"{1, 0.1, 1e-07, -inf, -0.0, 1.6777216e+07}"},
		{tensor.FromSlice([]float64{0.1, math.Float64frombits(0x7ff8000000000000),
			math.Float64frombits(0xfff8000000000000), math.Float64frombits(0x7ff0000000000001)}, 4),
			"{0.1, nan, -nan, nan(0x1)}"},
		{tensor.FromSlice([]complex64{1 + 2i, complex(0, float32(math.Inf(1)))}, 2), "{1, 2, 0, inf}"},
		{tensor.FromSlice([]tensor.F16{0x3c00, 0xfc00}, 2), "{15360, 64512}"},
		{tensor.FromSlice([]bool{true, false}, 2), "{1, 0}"},
		{tensor.FromSlice([]uint64{math.MaxUint64}, 1), "{18446744073709551615}"},
		{tensor.FromSlice([]int64{math.MinInt64}, 1), "{-9223372036854775808}"},
		{tensor.FromStrings([]string{`a"b\`, ""}, 2), `{"a\"b\\", ""}`},
		{packed(t, tensor.Int4, 3, 0xf8, 0x07), "{-8, -1, 7}"},
		{packed(t, tensor.Int2, 4, 0b10_11_00_01), "{1, 0, -1, -2}"},
		{packed(t, tensor.Float4E2M1, 2, 0xf0), "{0, 15}"},
		{tensor.New(tensor.Float32, 0), "{}"},
	} {
		b := []byte{'{'}
		for i := range c.t.Len() {
			if i > 0 {
				b = append(b, ", "...)
			}
			b = appendElem(b, c.t, i)
		}
		if got := string(append(b, '}')); got != c.want {
			t.Errorf("%s: %s, expected %s", c.t, got, c.want)
		}
	}
}

func packed(t *testing.T, d tensor.DType, n int, b ...byte) *tensor.Tensor {
	t.Helper()
	x, err := tensor.FromBytes(d, []int{n}, b)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestFloatTextExhaustiveSample(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		u := r.Uint64()
		for _, size := range []int{32, 64} {
			bits := u
			if size == 32 {
				bits &= math.MaxUint32
			}
			if r.IntN(4) == 0 { // make NaNs likely
				_, exp, _, _ := layout(size)
				bits |= exp
			}
			s := string(appendFloat(nil, bits, size))
			back, err := parseFloat(s, size)
			if err != nil || back != bits {
				t.Fatalf("%d bits %x: %s reads back as %x, %v", size, bits, s, back, err)
			}
		}
	}
}
