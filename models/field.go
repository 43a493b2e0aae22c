package models

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ops/essm"
)

// Allowed values of keys of a configuration.
var (
	EncoderTypes = []string{"identity", "linear", "embedding"}
	DecoderTypes = []string{"sequence", "retrieval"}
	Norms        = []string{"batch", "layer", "layer_scalar", "instance", "none"}
	Modes        = []string{"pool", "last", "first", "sum", "none"}
	Activations  = []string{"gelu", "relu", "leakyrelu", "tanh", "sigmoid", "silu", "swish", "full_glu", "half_glu1",
		"half_glu2"}
)

// field is one key of config.json. Reading, writing, Set and Validate all work on the table of fields.
type field struct {
	key   string            // with dots
	ref   func(*Config) any // *int, *bool, *float64 or *string
	def   any               // nil: the key is required if it applies
	oneOf []string          // allowed strings
	lo    int               // allowed integers
	hi    int
	null  bool               // null, or no key, stands for the zero value
	omit  bool               // the zero value is not written
	when  func(*Config) bool // whether the key applies; nil: always
}

func encoderIs(kind string) func(*Config) bool {
	return func(c *Config) bool { return c.Encoder.Type == kind }
}

func decoderIs(kind string) func(*Config) bool {
	return func(c *Config) bool { return c.Decoder.Type == kind }
}

// fields lists the keys in the order of the file. A section's type is before the keys that depend on it.
var fields = []field{
	{key: "model_type", ref: func(c *Config) any { return &c.ModelType }, oneOf: []string{"essm"}, def: "essm"},
	{key: "sampling_rate", ref: func(c *Config) any { return &c.SamplingRate }, lo: 1, hi: maxRate, null: true,
		omit: true},
	{key: "encoder.type", ref: func(c *Config) any { return &c.Encoder.Type }, oneOf: EncoderTypes},
	{key: "encoder.d_input", ref: func(c *Config) any { return &c.Encoder.DInput }, lo: 1, hi: maxSize,
		when: encoderIs("linear")},
	{key: "encoder.vocab_size", ref: func(c *Config) any { return &c.Encoder.VocabSize }, lo: 1, hi: maxVocab,
		when: encoderIs("embedding")},
	{key: "d_model", ref: func(c *Config) any { return &c.DModel }, lo: 1, hi: maxSize},
	{key: "n_layers", ref: func(c *Config) any { return &c.NLayers }, lo: 1, hi: maxLayers},
	{key: "prenorm", ref: func(c *Config) any { return &c.Prenorm }},
	{key: "norm", ref: func(c *Config) any { return &c.Norm }, oneOf: Norms},
	{key: "layer.heads", ref: func(c *Config) any { return &c.Layer.Heads }, lo: 1, hi: maxSize},
	{key: "layer.d_state", ref: func(c *Config) any { return &c.Layer.DState }, lo: 1, hi: maxSize},
	{key: "layer.channels", ref: func(c *Config) any { return &c.Layer.Channels }, lo: 1, hi: maxSize, def: 1},
	{key: "layer.bidirectional", ref: func(c *Config) any { return &c.Layer.Bidirectional }},
	{key: "layer.conj_sym", ref: func(c *Config) any { return &c.Layer.ConjSym }},
	{key: "layer.discretization", ref: func(c *Config) any { return &c.Layer.Discretization }, oneOf: essm.Methods,
		def: "zoh"},
	{key: "layer.lambda_real", ref: func(c *Config) any { return &c.Layer.LambdaReal }, oneOf: essm.RealConstraints,
		def: "clip"},
	{key: "layer.max_real_lambda", ref: func(c *Config) any { return &c.Layer.MaxRealLambda }, def: 1e-4},
	{key: "layer.lambda_imag", ref: func(c *Config) any { return &c.Layer.LambdaImag }, oneOf: essm.ImagConstraints,
		def: "same"},
	{key: "layer.dt", ref: func(c *Config) any { return &c.Layer.Dt }, oneOf: []string{"per_state", "shared"}},
	{key: "layer.d", ref: func(c *Config) any { return &c.Layer.D }, oneOf: []string{"none", "diagonal", "full"}},
	{key: "layer.activation", ref: func(c *Config) any { return &c.Layer.Activation }, oneOf: Activations, null: true},
	{key: "layer.post_activation", ref: func(c *Config) any { return &c.Layer.PostActivation }, oneOf: Activations,
		null: true},
	{key: "layer.max_kernel_length", ref: func(c *Config) any { return &c.Layer.MaxKernelLength }, lo: 1, hi: 1 << 30,
		null: true},
	{key: "decoder.type", ref: func(c *Config) any { return &c.Decoder.Type }, oneOf: DecoderTypes},
	{key: "decoder.mode", ref: func(c *Config) any { return &c.Decoder.Mode }, oneOf: Modes},
	{key: "decoder.nli", ref: func(c *Config) any { return &c.Decoder.NLI }, when: decoderIs("retrieval")},
	{key: "decoder.activation", ref: func(c *Config) any { return &c.Decoder.Activation },
		oneOf: []string{"gelu", "relu"}, when: decoderIs("retrieval")},
	{key: "decoder.d_output", ref: func(c *Config) any { return &c.Decoder.DOutput }, lo: 1, hi: maxSize},
	{key: "decoder.use_lengths", ref: func(c *Config) any { return &c.Decoder.UseLengths }, def: false},
}

// ignored are keys that hubs add.
var ignored = []string{"architectures", "torch_dtype", "transformers_version", "_name_or_path", "label2id"}

// labelsKey is the key of the class names, the only one that is not a field.
const labelsKey = "id2label"

// Keys lists the keys of Set, in the order of the file.
func Keys() []string {
	keys := make([]string, len(fields))
	for i, f := range fields {
		keys[i] = f.key
	}
	return keys
}

func (f field) split() (section, key string) {
	if s, k, ok := strings.Cut(f.key, "."); ok {
		return s, k
	}
	return "", f.key
}

func (f field) applies(c *Config) bool { return f.when == nil || f.when(c) }

func (f field) put(c *Config, v any) {
	switch p := f.ref(c).(type) {
	case *int:
		*p = v.(int)
	case *bool:
		*p = v.(bool)
	case *float64:
		*p = v.(float64)
	case *string:
		*p = v.(string)
	}
}

func (f field) get(c *Config) any {
	switch p := f.ref(c).(type) {
	case *int:
		return *p
	case *bool:
		return *p
	case *float64:
		return *p
	case *string:
		return *p
	}
	return nil
}

// zero returns the value of a key that does not apply or is null.
func (f field) zero() any { return f.get(&Config{}) }

// expected describes the allowed values of the key.
func (f field) expected() string {
	s := ""
	switch f.zero().(type) {
	case int:
		s = fmt.Sprintf("an integer from %d to %d", f.lo, f.hi)
	case bool:
		s = "true or false"
	case float64:
		s = "a number of at least 0"
	case string:
		s = strings.Join(f.oneOf, ", ")
		if len(f.oneOf) > 1 {
			s = "one of " + s
		}
	}
	if f.null {
		s += ", or null"
	}
	return s
}

func (f field) wrong(found string) error {
	return fmt.Errorf("%s: expected %s, found %s", f.key, f.expected(), found)
}

// read parses a value as in JSON, but with strings unquoted.
func (f field) read(text string) (any, error) {
	if text == "null" {
		switch {
		case f.null:
			return f.zero(), nil
		case f.def != nil:
			return f.def, nil
		}
		return nil, f.wrong("null")
	}
	switch f.zero().(type) {
	case int:
		if n, err := strconv.Atoi(text); err == nil && n >= f.lo && n <= f.hi {
			return n, nil
		}
	case bool:
		if text == "true" || text == "false" {
			return text == "true", nil
		}
	case float64:
		if x, err := strconv.ParseFloat(text, 64); err == nil && finite(x) && x >= 0 {
			return x, nil
		}
	case string:
		if slices.Contains(f.oneOf, text) {
			return text, nil
		}
	}
	return nil, f.wrong(shorten(text))
}

// clip cuts text from a file or caller to at most n characters.
func clip(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + "…"
	}
	return s
}

// shorten makes text from a file or caller fit for a message of one line.
func shorten(s string) string {
	s = clip(s, maxWord)
	if s == "" || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == '"' || r == 0x7f }) {
		return strconv.Quote(s)
	}
	return s
}

// maxWord is the number of characters of a name that messages show and comparisons read. No tensor's name is longer.
const maxWord = 80

// validate checks one value of a configuration.
func (f field) validate(c *Config) error {
	v := f.get(c)
	if !f.applies(c) {
		if v != f.zero() {
			section, key := f.split()
			return fmt.Errorf("%s: %s %s has no %s", f.key, section, sectionType(c, section), key)
		}
		return nil
	}
	if v == f.zero() && f.null {
		return nil
	}
	if _, err := f.read(fmt.Sprint(v)); err != nil {
		if v == f.zero() && f.def == nil {
			return fmt.Errorf("%s: is missing, expected %s", f.key, f.expected())
		}
		return err
	}
	return nil
}

func sectionType(c *Config, section string) string {
	if section == "encoder" {
		return c.Encoder.Type
	}
	return c.Decoder.Type
}

// json writes the key's value.
func (f field) json(c *Config) string {
	v := f.get(c)
	if f.null && v == f.zero() {
		return "null"
	}
	switch v := v.(type) {
	case string:
		return quote(v)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return fmt.Sprint(v)
}
