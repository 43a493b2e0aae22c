package essm

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/essmc/essmc/internal/shared"
	"github.com/essmc/essmc/models/config"
)

// small is a configuration with every required key.
const small = `{
 "model_type": "essm",
 "encoder": {
  "type": "linear",
  "d_input": 3
 },
 "d_model": 8,
 "n_layers": 2,
 "prenorm": true,
 "norm": "batch",
 "layer": {
  "heads": 2,
  "d_state": 8,
  "channels": 1,
  "bidirectional": false,
  "conj_sym": true,
  "discretization": "zoh",
  "lambda_real": "clip",
  "max_real_lambda": 0.0001,
  "lambda_imag": "same",
  "dt": "per_state",
  "d": "diagonal",
  "activation": null,
  "post_activation": "half_glu1",
  "max_kernel_length": null
 },
 "decoder": {
  "type": "sequence",
  "mode": "pool",
  "d_output": 2,
  "use_lengths": false
 },
 "id2label": {
  "0": "cat",
  "1": "dog & <co>"
 }
}
`

func mustParse(t testing.TB, s string) *Config {
	t.Helper()
	c, err := ParseConfig([]byte(s), "config.json")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestConfigRoundTrip(t *testing.T) {
	c := mustParse(t, small)
	if got := string(c.Settings().JSON()); got != small {
		t.Errorf("JSON gives\n%s", got)
	}
	if c.DModel != 8 || !c.Prenorm || c.Layer.PostActivation != "half_glu1" || c.Layer.Activation != "" ||
		c.ID2Label[1] != "dog & <co>" {
		t.Errorf("parsed %+v", c)
	}
}

func TestSamplingRate(t *testing.T) {
	stated := strings.Replace(small, ` "encoder"`, " \"sampling_rate\": 16000,\n \"encoder\"", 1)
	c := mustParse(t, stated)
	if got := string(c.Settings().JSON()); got != stated || c.SamplingRate != 16000 {
		t.Errorf("rate %d, JSON gives\n%s", c.SamplingRate, got)
	}
	if c := mustParse(t, strings.Replace(stated, "16000", "null", 1)); string(c.Settings().JSON()) != small {
		t.Errorf("null: JSON gives\n%s", c.Settings().JSON())
	}
	for _, wrong := range []string{"0", "-1", "16000.5", "1e9", `"16000"`} {
		_, err := ParseConfig([]byte(strings.Replace(stated, "16000", wrong, 1)), "config.json")
		want := "config.json: sampling_rate: expected an integer from 1 to 16777216, or null"
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestConfigOfReferences(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(shared.Path(t, "reference"), "*", "config.json"))
	if err != nil || len(files) == 0 {
		t.Fatal("no configurations", err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		c, err := ParseConfig(data, f)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := c.Settings().JSON(); !bytes.Equal(bytes.TrimSpace(got), bytes.TrimSpace(data)) {
			t.Errorf("%s: written as\n%s", f, got)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	c := mustParse(t, `{"model_type":"essm","encoder":{"type":"embedding","vocab_size":5,"d_input":null},"d_model":4,"n_layers":1,"prenorm":false,
		"norm":"none","layer":{"heads":1,"d_state":2,"bidirectional":true,"conj_sym":false,"dt":"shared","d":"none","channels":null},
		"decoder":{"type":"sequence","mode":"last","d_output":1},"architectures":[{"deep":[1,2]}],"torch_dtype":"float32",
		"transformers_version":"4","_name_or_path":"x","label2id":{"a":0}}`)
	l := c.Layer
	if l.Channels != 1 || l.Discretization != "zoh" || l.LambdaReal != "clip" || l.MaxRealLambda != 1e-4 ||
		l.LambdaImag != "same" ||
		l.Activation != "" || l.PostActivation != "" || l.MaxKernelLength != 0 || c.Decoder.UseLengths {
		t.Errorf("defaults: %+v", c)
	}
}

func TestConfigErrors(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"activation": null`, `"activaton": null`, "config.json: layer.activaton: unknown key, did you mean activation?"},
		{`"d_model": 8`, `"d_modl": 8`, "config.json: d_modl: unknown key, did you mean d_model?"},
		{`"d_model": 8`, `"d_model": 8, "heads": 2`, "config.json: heads: unknown key, did you mean layer.heads?"},
		{`"d_model": 8`, `"d_model": 8, "encodr": 2`, "config.json: encodr: unknown key, did you mean encoder?"},
		{`"heads": 2`, `"heads": 3`, "config.json: layer.heads: expected a divisor of d_model 8, found 3"},
		{`"heads": 2`, `"heads": 2, "heads": 2`, "config.json: line 12: layer.heads: is there twice"},
		{`"heads": 2`, `"heads": "2"`, `config.json: layer.heads: expected an integer from 1 to 1048576, found "2"`},
		{`"heads": 2`, `"heads": 2.5`, `config.json: layer.heads: expected an integer from 1 to 1048576, found 2.5`},
		{`"heads": 2`, `"heads": null`, `config.json: layer.heads: expected an integer from 1 to 1048576, found null`},
		{`"heads": 2,`, ``, `config.json: layer.heads: is missing, expected an integer from 1 to 1048576`},
		{`"heads": 2`, `"heads": {}`, `config.json: layer.heads: expected an integer from 1 to 1048576, found an object`},
		{`"d_input": 3`, `"d_input": null`,
			`config.json: encoder.d_input: is missing, expected an integer from 1 to 1048576`},
		{`"model_type": "essm"`, `"model_type": "bert"`, `config.json: model_type: expected essm, found bert; export other models to ONNX and give the .onnx file: ` +
			`optimum-cli export onnx --model DIR OUT, or torch.onnx.export in Python`},
		{`"model_type": "essm",`, ``, `config.json: model_type: is missing, expected essm`},
		{`"norm": "batch"`, `"norm": "group"`,
			`config.json: norm: expected one of batch, layer, layer_scalar, instance, none, found group`},
		{`"norm": "batch"`, `"norm": "null"`,
			`config.json: norm: expected one of batch, layer, layer_scalar, instance, none, found "null"`},
		{`"prenorm": true`, `"prenorm": 1`, `config.json: prenorm: expected true or false, found 1`},
		{`"max_real_lambda": 0.0001`, `"max_real_lambda": -1`,
			`config.json: layer.max_real_lambda: expected a number of at least 0, found -1`},
		{`"max_real_lambda": 0.0001`, `"max_real_lambda": 1e999`,
			`config.json: layer.max_real_lambda: expected a number of at least 0, found 1e999`},
		{`"type": "linear"`, `"type": "identity"`, `config.json: encoder.d_input: encoder identity has no d_input`},
		{`"mode": "pool"`, `"mode": "pool", "nli": true`, `config.json: decoder.nli: decoder sequence has no nli`},
		{`"type": "sequence"`, `"type": "retrieval"`, `config.json: decoder.nli: is missing, expected true or false`},
		{`"0": "cat"`, `"2": "cat"`, `config.json: id2label: expected the keys 0 to 1, found no 0`},
		{`"0": "cat"`, `"00": "cat"`, `config.json: id2label: expected class numbers as keys, found 00`},
		{`"0": "cat",`, ``, `config.json: id2label: expected the keys 0 to 0, found no 0`},
		{`"d_output": 2`, `"d_output": 3`, `config.json: id2label: expected 3 names (decoder.d_output), found 2`},
		{`"encoder": {`, `"encoder": [], "x": {`, `config.json: encoder: expected an object, found a list`},
		{`"layer": {`, `"layer": [`, `config.json: line 12: expected a comma or the end of the list, found ':'`},
		{`"use_lengths": false`, `"use_lengths"`, `config.json: line 32: expected a colon after the key, found '}'`},
		{"dog & <co>\"\n }\n}", "x\"}", `config.json: line 35: the file ends too early`},
		{"dog & <co>\"\n }\n}", "x\"}} {}", `config.json: line 35: expected nothing after the object`},
	} {
		text := strings.Replace(small, c.old, c.new, 1)
		if text == small {
			t.Fatalf("%q is not in the configuration", c.old)
		}
		_, err := ParseConfig([]byte(text), "config.json")
		if err == nil || err.Error() != c.want {
			t.Errorf("%s → %s:\n got %v\nwant %s", c.old, c.new, err, c.want)
		}
	}
	for _, text := range []string{"", "null", "[]", "\xff", `{"model_type":"essm"`, strings.Repeat(" ", config.MaxSize+1),
		`{"label2id":` + strings.Repeat("[", 1000)} {
		if _, err := ParseConfig([]byte(text), "config.json"); err == nil {
			t.Errorf("%.20q: no error", text)
		}
	}
	modes := strings.Replace(strings.Replace(small, `"pool"`, `"none"`, 1), `"use_lengths": false`,
		`"use_lengths": true`, 1)
	if _, err := ParseConfig([]byte(modes), "c"); err == nil || !strings.Contains(err.Error(), "lengths are meaningless") {
		t.Errorf("mode none with lengths: %v", err)
	}
}

func TestConfigSet(t *testing.T) {
	c := mustParse(t, small)
	for _, s := range [][2]string{{"layer.bidirectional", "true"}, {"norm", "none"}, {"layer.max_real_lambda", "0.5"},
		{"layer.max_kernel_length", "7"},
		{"layer.post_activation", "null"}, {"layer.channels", "null"}, {"encoder.type", "embedding"},
		{"encoder.vocab_size", "9"}} {
		if err := c.Settings().Set(s[0], s[1]); err != nil {
			t.Error(err)
		}
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if !c.Layer.Bidirectional || c.Norm != "none" || c.Layer.MaxRealLambda != 0.5 || c.Layer.MaxKernelLength != 7 ||
		c.Layer.PostActivation != "" ||
		c.Layer.Channels != 1 || c.Encoder != (Encoder{Type: "embedding", VocabSize: 9}) {
		t.Errorf("set: %+v", c)
	}
	for key, want := range map[string]string{
		"layer.bidirectionl": "layer.bidirectionl: unknown key, did you mean bidirectional?",
		"layr.heads":         "layr.heads: unknown key, did you mean layer.heads?",
		"d_model":            "d_model: expected an integer from 1 to 1048576, found x",
	} {
		if err := c.Settings().Set(key, "x"); err == nil || err.Error() != want {
			t.Errorf("Set(%s): got %v, want %s", key, err, want)
		}
	}
}

// FuzzConfig checks that reading never panics, and that what was read is written as a file that reads the same.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(small))
	f.Add([]byte(strings.Replace(small, `"d_model": 8`, `"d_model": 8, "label2id": [[{}]]`, 1)))
	f.Add([]byte(`{"model_type":"essm","encoder":{"type":"identity"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := ParseConfig(data, "config.json")
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("message of several lines: %q", err)
			}
			return
		}
		again, err := ParseConfig(c.Settings().JSON(), "again")
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Settings().JSON())
		}
		if !bytes.Equal(c.Settings().JSON(), again.Settings().JSON()) {
			t.Errorf("%s\nis read as\n%s", c.Settings().JSON(), again.Settings().JSON())
		}
	})
}
