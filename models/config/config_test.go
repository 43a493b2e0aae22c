package config

import (
	"bytes"
	"strings"
	"testing"
)

// settings is a configuration with a key of each kind.
type settings struct {
	Kind   string
	Count  int
	On     bool
	Scale  float64
	Sizes  []int
	Depth  int
	Way    string
	Labels []string
}

var table = &Table[settings]{
	TypeKey: "kind",
	Ignored: []string{"noise", "deep.noise"},
	Refused: map[string]string{"gate": "it is broken"},
	Hub:     true,
	Labels:  func(c *settings) *[]string { return &c.Labels },
	Fields: []Field[settings]{
		{Key: "outer.kind", Ref: func(c *settings) any { return &c.Kind }, OneOf: []string{"small", "large"}},
		{Key: "outer.count", Ref: func(c *settings) any { return &c.Count }, Lo: 1, Hi: 9,
			When: func(c *settings) bool { return c.Kind == "large" }},
		{Key: "outer.inner.on", Ref: func(c *settings) any { return &c.On }, Def: true},
		{Key: "scale", Ref: func(c *settings) any { return &c.Scale }, Signed: true, Def: 1.0},
		{Key: "sizes", Ref: func(c *settings) any { return &c.Sizes }, Lo: 1, Hi: 100, Null: true, Omit: true},
		{Key: "deep.depth", Ref: func(c *settings) any { return &c.Depth }, Lo: 1, Hi: 9, Null: true},
		{Key: "way", Ref: func(c *settings) any { return &c.Way }, OneOf: []string{"true", "false"}, Bare: true, Null: true},
	},
}

func read(text string) (*settings, error) {
	c := &settings{}
	table.Defaults(c)
	v, err := Parse([]byte(text))
	if err == nil {
		err = table.Read(c, v)
	}
	if err == nil {
		err = table.Validate(c)
	}
	return c, err
}

func TestTable(t *testing.T) {
	c, err := read(`{"sizes": [3, 4], "outer": {"kind": "large", "count": 2, "inner": {"on": false}}, "noise": [[{}]], "gate": null,
		"deep": {"noise": -Infinity}, "scale": -2.5, "way": true, "id2label": {"1": "b\n", "0": "a"}}`)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
 "outer": {
  "kind": "large",
  "count": 2,
  "inner": {
   "on": false
  }
 },
 "scale": -2.5,
 "sizes": [3, 4],
 "deep": {
  "depth": null
 },
 "way": true,
 "id2label": {
  "0": "a",
  "1": "b\n"
 }
}
`
	if got := string(table.JSON(c)); got != want {
		t.Errorf("written as\n%s", got)
	}
	if again, err := read(want); err != nil || string(table.JSON(again)) != want {
		t.Errorf("read again: %v", err)
	}
	if c.Way = ""; !bytes.Contains(table.JSON(c), []byte("\"way\": null")) {
		t.Errorf("null is written as\n%s", table.JSON(c))
	}
	if err := table.Set(c, "sizes", "5, 6,7"); err != nil || len(c.Sizes) != 3 {
		t.Errorf("sizes %v (%v)", c.Sizes, err)
	}
	if err := table.Set(c, "outer.kind", "small"); err != nil || c.Count != 0 {
		t.Errorf("count %d after another kind (%v)", c.Count, err)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                          "outer.kind: is missing, expected one of small, large",
		`{"outer": 3}`:                "outer: expected an object, found 3",
		`{"outer": {"kind": "tiny"}}`: "outer.kind: expected one of small, large, found tiny",
		`{"outer": {"kind": "small", "count": 3}}`: "outer.count: outer small has no count",
		`{"outer": {"kind": "large"}}`:             "outer.count: is missing, expected an integer from 1 to 9",
		`{"outer": {"knd": "large"}}`:              "outer.knd: unknown key, did you mean kind?",
		`{"outer": {"kind": "small"}, "gate": 3}`:  "gate: expected null, found 3: it is broken",
		`{"kennel": 1}`: "kennel: unknown key; remove it if it does not change the model's outputs; expected one of outer, scale, " +
			"sizes, deep, way, id2label",
		`{"outer": {"kind": "small", "dtype": "x"}}`: "outer.dtype: unknown key; remove it if it does not change the model's " +
			"outputs; expected one of kind, count, inner",
		`{"quantization_config": {"bits": 4}}`: "quantization_config: expected null, found an object: the weights are quantized, " +
			"and essmc reads float32, float16 and bfloat16; use the model's unquantized directory, or export it to ONNX",
		`{"is_encoder_decoder": true}`: "is_encoder_decoder: expected null, found true: models of an encoder and a decoder are " +
			"not supported; export the model to ONNX",
		`{"outr": {}}`: "outr: unknown key, did you mean outer?",
		`{"outer": {"kind": "small", "iner": {}}}`:        "outer.iner: unknown key, did you mean inner?",
		`{"outer": {"kind": "small"}, "scale": Infinity}`: "scale: expected a finite number, found Infinity",
		`{"outer": {"kind": "small"}, "sizes": [1, 101]}`: "sizes: expected a list of integers from 1 to 100, or null, found 1,101",
		`{"outer": {"kind": "small"}, "sizes": ["a"]}`:    "sizes: expected a list of integers from 1 to 100, or null, found a list",
		`{"outer": {"kind": "small"}, "sizes": []}`:       "sizes: expected a list of integers from 1 to 100, or null, found a list",
		`{"outer": {"kind": "small"}, "scale": [1]}`:      "scale: expected a finite number, found a list",
		`{"outer": {"kind": "small"}, "way": "true"}`:     `way: expected one of true, false, or null, found "true"; did you mean true?`,
		`{"outer": {"kind": "small"}, "id2label": ["a"]}`: "id2label: expected an object, found a list",
		"{\n\"a\": 1,\n\"a\": 2}":                         "line 3: a: is there twice",
		"{\"a\": {\"b\": 1, \"b\": 2}}":                   "line 1: a.b: is there twice",
		"{\"a\": 01}":                                     "line 1: expected a value, found 01",
		"{\"a\": nul}":                                    "line 1: expected a value, found nul",
		"{\"a\": \"\\q\"}":                                "line 1: expected a string of JSON, found \"\\\"\\\\q\\\"\"",
		"{\"a\": \"\n\"}":                                 "line 1: expected the end of a string, found '\\n'",
		"{\"a\": 1,}":                                     "line 1: expected a key, found '}'",
		"{\"a\": [1,]}":                                   "line 1: expected a value, found ']'",
		"{\"a\" 1}":                                       "line 1: expected a colon after the key, found '1'",
		"{\"a\": 1\n":                                     "line 1: the file ends too early",
		"{\"a":                                            "line 1: the file ends too early",
		"{} {}":                                           "line 1: expected nothing after the object",
		"[1]":                                             "expected an object, found a list",
		"":                                                "line 1: the file ends too early",
		"\xff":                                            "is not UTF-8 text",
		strings.Repeat(`{"a":`, 100):                      "line 1: expected at most 64 levels of nesting",
		`{"a": [` + strings.Repeat("0,", 1<<18) + "0]}": "line 1: expected at most 262144 values",
		strings.Repeat(" ", MaxSize+1):                  "expected at most 4194304 bytes, found 4194305",
	} {
		if _, err := read(text); err == nil || err.Error() != want {
			t.Errorf("%.60q:\n got %v\nwant %s", text, err, want)
		}
	}
}

// TestHubKeys reads a configuration with keys of the base class of model hubs, old and new, and tells them apart from keys
// that change the model.
func TestHubKeys(t *testing.T) {
	_, err := read(`{"outer": {"kind": "small"}, "auto_map": {"AutoModel": "m.M"}, "num_labels": 2, "label2id": {"a": 0},
		"problem_type": "regression", "torchscript": false, "torch_dtype": "float16", "dtype": "float32", "architectures": ["X"],
		"_name_or_path": "", "_commit_hash": null, "transformers_version": "4.9.1", "output_hidden_states": false,
		"output_attentions": false, "return_dict": true, "chunk_size_feed_forward": 0, "pruned_heads": {}, "temperature": 1.0,
		"is_encoder_decoder": false, "add_cross_attention": false, "quantization_config": null, "per_layer_config": null,
		"_attn_implementation_autoset": true, "use_bfloat16": false, "finetuning_task": null, "tf_legacy_loss": false}`)
	if err != nil {
		t.Error(err)
	}
	c := &settings{Kind: "small"}
	want := "kennel: unknown key; expected one of outer.kind, outer.count, outer.inner.on, scale, sizes, deep.depth, way"
	if err := table.Set(c, "kennel", "1"); err == nil || err.Error() != want {
		t.Errorf("found %v, expected %s", err, want)
	}
	for name := range hubRefused {
		if hubKeys[name] {
			t.Errorf("%s is both accepted and refused", name)
		}
	}
}

// FuzzParse checks that reading never panics, and that what was read is written as a file that reads the same.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"outer": {"kind": "large", "count": 2}, "sizes": [1, 2], "scale": -1e-3, "id2label": {"0": "\u00e9"}}`))
	f.Add([]byte(`{"outer": {"kind": "small"}, "noise": [NaN, null, true, {"a": []}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := read(string(b))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("message of several lines: %q", err)
			}
			return
		}
		text := table.JSON(c)
		if again, err := read(string(text)); err != nil || !bytes.Equal(table.JSON(again), text) {
			t.Errorf("%v\n%s\nis read as\n%s", err, text, table.JSON(again))
		}
	})
}
