package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
	"github.com/essmc/essmc/frontend/tokenizer/internal/model"
)

// Config is what tokenizer_config.json and special_tokens_map.json state about the use of a tokenizer. Encode does not
// use it, except that tensors of texts of different lengths are padded with PadToken on its side. Decode uses
// CleanSpaces. The keys add_bos_token and add_eos_token are ignored, as transformers 5 ignores them beside a
// tokenizer.json, for all classes: its post-processor says which tokens are added.
type Config struct {
	MaxLength    int    // the number of tokens that the model accepts; 0: not stated
	PadToken     string // "": not stated
	PadLeft      bool   // padding_side is left
	TruncateLeft bool   // truncation_side is left
	// Decode takes spaces off before punctuation and English endings, such as " ." and " 's"
	CleanSpaces bool
	Tokens      map[string]string // the texts of tokens by their role, such as "eos_token" and "mask_token"
}

// Config returns what the files beside tokenizer.json state; the zero value if the tokenizer was not read by ReadDir.
func (t *Tokenizer) Config() Config {
	c := t.config
	c.Tokens = maps.Clone(c.Tokens)
	return c
}

// readConfig reads the files beside tokenizer.json, if they exist.
func (t *Tokenizer) readConfig(dir string) error {
	t.config.Tokens = map[string]string{}
	var asked cleaning
	for _, name := range []string{SpecialMapName, ConfigName} {
		path := filepath.Join(dir, name)
		b, err := read(path, maxConfig)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		v, err := jsontext.Parse(b)
		if err == nil {
			err = t.config.read(v, &asked)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	t.config.PadToken = t.config.Tokens["pad_token"]
	if t.config.CleanSpaces = asked.spaces && (asked.bpe || !model.IsBPE(t.model)); t.config.CleanSpaces {
		t.decoder.Clean()
	}
	return nil
}

// cleaning is what the files say about spaces in decoded texts. BPE needs to be asked twice: its spaces belong to the
// text.
type cleaning struct{ spaces, bpe bool }

// read reads an object. Keys that are about other things are left alone: these files have what Python classes are
// given.
func (c *Config) read(v jsontext.Value, asked *cleaning) error {
	return v.Fields(func(key []byte, v jsontext.Value) error {
		if v.Kind() == jsontext.Null {
			return nil
		}
		var err error
		switch k := string(key); {
		case k == "model_max_length":
			// Larger numbers, such as 1e30, say that there is no limit.
			var n float64
			if n, err = v.Float(); n >= 1 && n <= math.MaxInt32 {
				c.MaxLength = int(n)
			}
		case k == "padding_side":
			c.PadLeft, err = side(v)
		case k == "truncation_side":
			c.TruncateLeft, err = side(v)
		case k == "clean_up_tokenization_spaces":
			asked.spaces, err = v.Bool()
		case k == "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output":
			asked.bpe, err = v.Bool()
		case strings.HasSuffix(k, "_token") && !strings.HasPrefix(k, "add_"):
			err = c.token(k, v)
		}
		return within(key, err)
	})
}

func side(v jsontext.Value) (bool, error) {
	i, err := choice(v, "left", "right")
	return i == 0, err
}

// token reads the text of a token: a string, or an object with its content.
func (c *Config) token(role string, v jsontext.Value) error {
	if len(c.Tokens) == maxSpecialNames {
		return fmt.Errorf("expected at most %d tokens, found more: %v, …", maxSpecialNames,
			slices.Sorted(maps.Keys(c.Tokens))[0])
	}
	switch v.Kind() {
	case jsontext.String:
		c.Tokens[role] = string(v.Text(nil))
	case jsontext.Object:
		return v.Fields(func(key []byte, v jsontext.Value) error {
			if string(key) != "content" {
				return nil
			}
			s, err := v.Str()
			c.Tokens[role] = s
			return err
		})
	}
	return nil
}
