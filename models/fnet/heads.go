package fnet

import (
	"slices"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/backbone"
)

// Values of the key architectures.
const (
	classification = "FNetForSequenceClassification"
	masked         = "FNetForMaskedLM"
	bare           = "FNetModel"
	pretraining    = "FNetForPreTraining"
	nextSentence   = "FNetForNextSentencePrediction"
	choice         = "FNetForMultipleChoice"
	tokenClasses   = "FNetForTokenClassification"
	answers        = "FNetForQuestionAnswering"
)

// Outputs besides models.Output.
const (
	// Pooled is tanh(pooler(x[0])) of FNetModel: float[B,d].
	Pooled = "pooler_output"
	// NextSentence is the logits of the second head of FNetForPreTraining: float[B,2].
	NextSentence = "seq_relationship_logits"
)

// head is what an architecture adds to the encoder.
type head struct {
	doc     string
	pooled  bool   // it uses the pooler
	linear  string // the tensors of a linear layer, over the pooled features or else over those of each step
	words   bool   // it predicts words
	outputs func(c *Config) int
	labels  bool // the outputs of linear are the classes of id2label
}

func two(*Config) int     { return 2 }
func one(*Config) int     { return 1 }
func width(c *Config) int { return c.HiddenSize }

var heads = map[string]head{
	classification: {"classification", true, "classifier", false, (*Config).classes, true},
	masked:         {"masked language model", false, "", true, func(c *Config) int { return c.VocabSize }, false},
	bare:           {"features", true, "", false, width, false},
	pretraining: {"masked language model and next sentence", true, "cls.seq_relationship", true,
		func(c *Config) int { return c.VocabSize }, false},
	nextSentence: {"next sentence", true, "cls.seq_relationship", false, two, false},
	choice:       {"a score for each choice", true, "classifier", false, one, false},
	tokenClasses: {"classification of tokens", false, "classifier", false, (*Config).classes, true},
	answers:      {"first and last token of an answer", false, "qa_outputs", false, (*Config).classes, false},
}

// architectures lists the values of the key, the first ones first in messages.
var architectures = []string{classification, masked, bare, pretraining, nextSentence, choice, tokenClasses, answers}

// prefix begins the names of the encoder's tensors. Hubs store FNetModel without one.
func (c *Config) prefix(w models.Weights) string {
	if c.Architecture == bare && w["fnet.embeddings.word_embeddings.weight"] == nil {
		return ""
	}
	return "fnet."
}

// headSpecs lists the tensors behind the encoder.
func (c *Config) headSpecs(w models.Weights, prefix string) []models.Spec {
	h, d := heads[c.Architecture], c.HiddenSize
	var all []models.Spec
	// transformers' add_pooling_layer
	if h.pooled && (w == nil || c.Architecture != bare || w[prefix+"pooler.dense.weight"] != nil) {
		all = append(all, backbone.LinearSpecs(prefix+"pooler.dense", d, d)...)
	}
	if h.linear != "" {
		n := h.outputs(c)
		if h.words {
			n = 2
		}
		all = append(all, backbone.LinearSpecs(h.linear, n, d)...)
	}
	if h.words {
		all = append(all, backbone.LinearSpecs("cls.predictions.transform.dense", d, d)...)
		all = append(all, normSpecs("cls.predictions.transform", d)...)
		all = append(all, models.Spec{Name: "cls.predictions.bias", Shape: []int{c.VocabSize}})
	}
	return all
}

// Extra reports whether a checkpoint may have a tensor besides: copies, a pooler that the head does not use, and, of
// architectures without a layer of their own, heads of pretraining.
func (c *Config) Extra(name string) bool {
	if strings.HasSuffix(name, "embeddings.position_ids") || strings.HasSuffix(name, "embeddings.token_type_ids") {
		return true
	}
	h := heads[c.Architecture]
	switch {
	case strings.HasPrefix(name, "fnet.pooler.dense."):
		return !h.pooled
	case strings.HasPrefix(name, "cls.predictions.decoder."): // copies of tied tensors
		return h.words
	case strings.HasPrefix(name, "cls.predictions."):
		return !h.words && slices.Contains([]string{bare, nextSentence}, c.Architecture)
	case strings.HasPrefix(name, "cls.seq_relationship."):
		return slices.Contains([]string{bare, masked}, c.Architecture)
	}
	return false
}

// decode adds the outputs for the encoder's x.
func (c *Config) decode(n *backbone.Network, x *ir.Value, prefix string) {
	h := heads[c.Architecture]
	n.Scope("decoder")
	y := x
	pooled := h.pooled && n.Weight(prefix+"pooler.dense.weight") != nil
	if pooled {
		first := n.Op("essm", "Pick", []*ir.Value{x}, ir.A("mode", "first"))
		y = n.Do("Tanh", []*ir.Value{n.Linear(first, prefix+"pooler.dense")})
	}
	switch {
	case c.Architecture == bare:
		n.Output(models.Output, x)
		if pooled {
			n.Output(Pooled, y)
		}
		return
	case !h.words:
		n.Output(models.Output, n.Linear(y, h.linear))
		return
	}
	z := c.norm(n, c.activation(n, n.Linear(x, "cls.predictions.transform.dense")), "cls.predictions.transform")
	n.Output(models.Output, n.Op("essm", "Linear", []*ir.Value{z, n.Weight("fnet.embeddings.word_embeddings.weight"),
		n.Weight("cls.predictions.bias")}))
	if h.linear != "" {
		n.Output(NextSentence, n.Linear(y, h.linear))
	}
}
