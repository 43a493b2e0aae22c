package backbone

import (
	"fmt"
	"math"
	"strconv"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// Encoder is a part of the encoder, which maps the input to d_model features.
type Encoder interface {
	config.Part
	// width returns the number of features after the part, given that before it; 0: the input's. Errors begin with a
	// key.
	width(before, d int, last bool) (int, error)
	// describe names a step of the input.
	describe(d int) string
	// input makes the graph's input for the part.
	input(n *Network, d int) *Value
	specs(d int, prefix string) []models.Spec
	build(n *Network, x *Value, prefix string) *Value
}

// encoders are the parts of encoders.
var encoders = map[string]func() Encoder{
	"linear":    func() Encoder { return newLinear() },
	"embedding": func() Encoder { return newEmbedding() },
	"id":        func() Encoder { return newIdentity() },
	"position":  func() Encoder { return newPosition() },
}

// features is the input of numbers.
func features(n *Network, d int) *Value {
	return n.Input(models.Input, ir.Tensor(tensor.Float32, n.batch, "L", d))
}

// linear is a linear layer.
type linear struct {
	config.Keyed[linear]
	DInput int
}

func newLinear() *linear {
	l := &linear{}
	l.Keyed = config.Keyed[linear]{Type: "linear", C: l, Table: &config.Table[linear]{
		Ignored: []string{"bias", "zero_bias_init"},
		Fields: []config.Field[linear]{
			{Key: "d_input", Ref: func(l *linear) any { return &l.DInput }, Lo: 1, Hi: MaxSize},
		}}}
	return l
}

func (l *linear) width(before, d int, _ bool) (int, error) {
	if before != 0 && before != l.DInput {
		return 0, fmt.Errorf("d_input: expected %d, the features before it, found %d", before, l.DInput)
	}
	return d, nil
}

func (l *linear) describe(int) string            { return models.Plural(l.DInput, "feature") }
func (l *linear) input(n *Network, _ int) *Value { return features(n, l.DInput) }

func (l *linear) specs(d int, prefix string) []models.Spec {
	return LinearSpecs(prefix, d, l.DInput)
}

func (l *linear) build(n *Network, x *Value, prefix string) *Value { return n.Linear(x, prefix) }

// embedding is a table of vectors.
type embedding struct {
	config.Keyed[embedding]
	NTokens int
}

func newEmbedding() *embedding {
	e := &embedding{}
	e.Keyed = config.Keyed[embedding]{Type: "embedding", C: e, Table: &config.Table[embedding]{
		Fields: []config.Field[embedding]{
			{Key: "n_tokens", Ref: func(e *embedding) any { return &e.NTokens }, Lo: 1, Hi: maxVocab},
		}}}
	return e
}

func (e *embedding) width(before, d int, _ bool) (int, error) {
	if before != 0 {
		return 0, fmt.Errorf("_name_: an embedding takes tokens, so it comes first")
	}
	return d, nil
}

func (e *embedding) describe(int) string { return "tokens" }

func (e *embedding) input(n *Network, _ int) *Value {
	return n.Input(models.Input, ir.Tensor(tensor.Int64, n.batch, "L"))
}

func (e *embedding) specs(d int, prefix string) []models.Spec {
	return []models.Spec{{Name: prefix + ".weight", Shape: []int{e.NTokens, d}}}
}

func (e *embedding) build(n *Network, x *Value, prefix string) *Value {
	return n.Op("essm", "Embedding", []*Value{x, n.Weight(prefix + ".weight")})
}

// identity takes features as they are.
type identity struct{ config.Keyed[identity] }

func newIdentity() *identity {
	i := &identity{}
	i.Keyed = config.Keyed[identity]{Type: "id", C: i, Table: &config.Table[identity]{}}
	return i
}

func (i *identity) width(before, d int, _ bool) (int, error)         { return d, nil }
func (i *identity) describe(d int) string                            { return models.Plural(d, "feature") }
func (i *identity) input(n *Network, d int) *Value                   { return features(n, d) }
func (i *identity) specs(int, string) []models.Spec                  { return nil }
func (i *identity) build(n *Network, x *Value, prefix string) *Value { return x }

// position adds a vector for each step.
type position struct {
	config.Keyed[position]
	MaxLen int
	PeInit string
}

func newPosition() *position {
	p := &position{}
	p.Keyed = config.Keyed[position]{Type: "position", C: p, Table: &config.Table[position]{
		Ignored: []string{"dropout", "causal"},
		Fields: []config.Field[position]{
			{Key: "max_len", Ref: func(p *position) any { return &p.MaxLen }, Lo: 1, Hi: MaxSize, Def: 16384},
			{Key: "pe_init", Ref: func(p *position) any { return &p.PeInit }, Null: true, Omit: true},
		}}}
	return p
}

func (p *position) width(before, d int, _ bool) (int, error) {
	if p.PeInit != "" {
		return 0, fmt.Errorf("pe_init: the released code adds learned positions along the batch; only sinusoids are " +
			"meaningful")
	}
	return d, nil
}

func (p *position) describe(d int) string          { return models.Plural(d, "feature") }
func (p *position) input(n *Network, d int) *Value { return features(n, d) }

func (p *position) specs(d int, prefix string) []models.Spec {
	return []models.Spec{{Name: prefix + ".pe", Shape: []int{p.MaxLen, d}, Statistic: true}}
}

func (p *position) build(n *Network, x *Value, prefix string) *Value {
	return n.Positions(x, n.Weight(prefix+".pe"))
}

// Positions adds row t of a table to step t, of at most as many steps as there are rows.
func (n *Network) Positions(x, table *Value) *Value {
	length := n.Do("Squeeze", []*Value{n.Do("Shape", []*Value{x}, ir.A("start", 1), ir.A("end", 2))})
	steps := n.Do("Range", []*Value{n.Const("first", tensor.Scalar(int64(0))), length,
		n.Const("step", tensor.Scalar(int64(1)))})
	return n.Do("Add", []*Value{x, n.Do("Gather", []*Value{table, steps})})
}

// Sinusoids fills the vectors of positions: sines at even features, cosines at odd ones.
func Sinusoids(x []float64, d int) {
	for i := range x {
		t, k := float64(i/d), i%d
		w := math.Exp(-float64(k/2*2) / float64(d) * math.Log(10000))
		if x[i] = math.Sin(t * w); k%2 == 1 {
			x[i] = math.Cos(t * w)
		}
	}
}

// encoderName begins the names of the tensors of part i of the encoder.
func (c *Config) encoderName(i int) string {
	if c.older && len(c.Encoder) == 1 {
		return "encoder"
	}
	return "encoder." + strconv.Itoa(i)
}

// decoderName begins the names of the tensors of the decoder's linear layer.
func (c *Config) decoderName() string {
	if c.older {
		return "decoder.output_transform"
	}
	return "decoder.0.output_transform"
}
