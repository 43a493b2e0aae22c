package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"

	"github.com/essmc/essmc/frontend/tokenizer/internal/decode"
	"github.com/essmc/essmc/frontend/tokenizer/internal/jsontext"
	"github.com/essmc/essmc/frontend/tokenizer/internal/model"
	"github.com/essmc/essmc/frontend/tokenizer/internal/normalize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/pretokenize"
	"github.com/essmc/essmc/frontend/tokenizer/internal/process"
	"github.com/essmc/essmc/internal/files"
	"github.com/essmc/essmc/internal/lfs"
)

// Limits of a file.
const (
	MaxFile   = 128 << 20
	MaxTokens = model.MaxTokens

	maxPart       = 4 << 20 // bytes of a normalizer, a pre-tokenizer, a post-processor or a decoder
	maxPartValues = 1 << 14 // values in it
)

// ReadFile reads a tokenizer.json.
func ReadFile(path string) (*Tokenizer, error) {
	b, err := read(path, MaxFile)
	if err != nil {
		return nil, err
	}
	return Parse(b, path)
}

// ReadDir reads the tokenizer.json of a model directory, and tokenizer_config.json and special_tokens_map.json beside
// it if they exist.
func ReadDir(dir string) (*Tokenizer, error) {
	t, err := ReadFile(filepath.Join(dir, FileName))
	if err != nil {
		return nil, err
	}
	return t, t.readConfig(dir)
}

// read reads a file of limited size.
func read(path string, limit int64) ([]byte, error) {
	f, err := files.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var b bytes.Buffer
	if size, err := f.Regular(path); err == nil && size <= limit {
		b.Grow(int(size) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("%s: expected at most %d bytes, found more", path, limit)
	}
	return b.Bytes(), nil
}

// Parse reads a tokenizer.json from memory. Errors begin with name. The tokenizer keeps nothing of b.
func Parse(b []byte, name string) (*Tokenizer, error) {
	t, err := parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return t, nil
}

// sections are the values of a file.
type sections struct {
	version, truncation, padding, added                   jsontext.Value
	normalizer, preTokenizer, postProcessor, decoder, mod jsontext.Value
}

func parse(b []byte) (*Tokenizer, error) {
	if len(b) > MaxFile {
		return nil, fmt.Errorf("expected at most %d bytes, found %d", MaxFile, len(b))
	}
	if err := lfs.Check(b); err != nil {
		return nil, err
	}
	v, err := jsontext.Parse(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))
	if err != nil {
		return nil, err
	}
	s, err := divide(v)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{}
	if err := t.parts(s); err != nil {
		return nil, err
	}
	if s.mod == nil {
		return nil, fmt.Errorf("model: expected a model, found none")
	}
	if t.model, err = model.Parse(s.mod); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	if err := t.readAdded(s.added); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if err := t.findAdded(len(b)); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if err := t.readSettings(s); err != nil {
		return nil, err
	}
	t.workers.New = func() any { return t.newWorker() }
	return t, nil
}

// divide finds the values of a file.
func divide(v jsontext.Value) (*sections, error) {
	s := &sections{}
	keys := map[string]*jsontext.Value{
		"version": &s.version, "truncation": &s.truncation, "padding": &s.padding, "added_tokens": &s.added,
		"normalizer": &s.normalizer, "pre_tokenizer": &s.preTokenizer, "post_processor": &s.postProcessor,
		"decoder": &s.decoder, "model": &s.mod,
	}
	err := v.Fields(func(key []byte, v jsontext.Value) error {
		to, ok := keys[string(key)]
		switch {
		case !ok:
			return fmt.Errorf("key %.60q is not supported", key)
		case *to != nil:
			return fmt.Errorf("%s: expected it once, found it twice", key)
		}
		*to = v
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.version != nil && string(s.version) != `"1.0"` {
		return nil, fmt.Errorf("version: expected \"1.0\", found %.20s", string(s.version))
	}
	return s, nil
}

// parts reads the small parts.
func (t *Tokenizer) parts(s *sections) error {
	for _, p := range []struct {
		name string
		v    jsontext.Value
	}{
		{"normalizer", s.normalizer}, {"pre_tokenizer", s.preTokenizer}, {"post_processor", s.postProcessor},
		{"decoder", s.decoder},
	} {
		if len(p.v) > maxPart {
			return fmt.Errorf("%s: expected at most %d bytes, found %d", p.name, maxPart, len(p.v))
		}
		if n := p.v.Count(); n > maxPartValues {
			return fmt.Errorf("%s: expected at most %d values, found %d", p.name, maxPartValues, n)
		}
	}
	var err error
	if t.normalizer, err = normalize.Parse(json.RawMessage(s.normalizer), "normalizer"); err != nil {
		return err
	}
	if t.pre, err = pretokenize.Parse(json.RawMessage(s.preTokenizer), "pre_tokenizer"); err != nil {
		return err
	}
	if t.processor, err = process.Parse(json.RawMessage(s.postProcessor), "post_processor"); err != nil {
		return err
	}
	t.decoder, err = decode.Parse(json.RawMessage(s.decoder), "decoder")
	return err
}
