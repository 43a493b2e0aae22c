package models

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/essmc/essmc/internal/spell"
)

// maxNesting bounds the depth of values under keys that are ignored.
const maxNesting = 64

// configReader reads one configuration, token by token, so that duplicate keys are seen.
type configReader struct {
	data []byte
	dec  *json.Decoder
	c    *Config
	seen map[string]bool
}

func parseConfig(data []byte) (*Config, error) {
	if len(data) > MaxConfig {
		return nil, fmt.Errorf("expected at most %d bytes, found %d", MaxConfig, len(data))
	}
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8 text")
	}
	r := &configReader{data: data, dec: json.NewDecoder(bytes.NewReader(data)), c: Default(), seen: map[string]bool{}}
	r.dec.UseNumber()
	t, err := r.token()
	if err != nil {
		return nil, err
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("expected an object, found %s", describe(t))
	}
	if err := r.object(""); err != nil {
		return nil, err
	}
	if _, err := r.dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("line %d: expected nothing after the object", r.line())
	}
	for _, f := range fields {
		if f.key == "model_type" && !r.seen[f.key] || f.applies(r.c) && !r.seen[f.key] && f.def == nil && !f.null {
			return nil, fmt.Errorf("%s: is missing, expected %s", f.key, f.expected())
		}
	}
	return r.c, r.c.Validate()
}

func (r *configReader) line() int {
	return 1 + bytes.Count(r.data[:min(int(r.dec.InputOffset()), len(r.data))], []byte("\n"))
}

func (r *configReader) token() (json.Token, error) {
	t, err := r.dec.Token()
	if err == nil {
		return t, nil
	}
	if err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, fmt.Errorf("line %d: the file ends too early", r.line())
	}
	return nil, fmt.Errorf("line %d: %w", r.line(), err)
}

// key reads the next key of an object, or its end.
func (r *configReader) key(section string) (key string, end bool, err error) {
	t, err := r.token()
	if err != nil {
		return "", false, err
	}
	if t == json.Delim('}') {
		return "", true, nil
	}
	key = t.(string) // the decoder returns strings for keys
	if section != "" {
		key = section + "." + key
	}
	if r.seen[key] {
		return "", false, fmt.Errorf("line %d: %s: is there twice", r.line(), shorten(key))
	}
	r.seen[key] = true
	return key, false, nil
}

// object reads the keys of the file, or of one section, after its opening brace.
func (r *configReader) object(section string) error {
	for {
		key, end, err := r.key(section)
		if err != nil || end {
			return err
		}
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == key })
		switch {
		case i >= 0:
			err = r.value(fields[i])
		case section == "" && slices.ContainsFunc(fields, func(f field) bool { return strings.HasPrefix(f.key, key+".") }):
			err = r.section(key)
		case key == labelsKey:
			err = r.labels()
		case slices.Contains(ignored, key):
			err = r.skip()
		default:
			err = unknownKey(key, "encoder", "layer", "decoder", labelsKey)
		}
		if err != nil {
			return err
		}
	}
}

func (r *configReader) section(name string) error {
	t, err := r.token()
	if err != nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%s: expected an object, found %s", name, describe(t))
	}
	return r.object(name)
}

func (r *configReader) value(f field) error {
	t, err := r.token()
	if err != nil {
		return err
	}
	text := ""
	_, isText := f.zero().(string)
	switch t := t.(type) {
	case json.Number:
		text = string(t)
		if isText {
			return f.wrong(shorten(text))
		}
	case bool:
		text = strconv.FormatBool(t)
	case string:
		if !isText || t == "null" {
			return f.wrong(quote(clip(t, maxWord)))
		}
		text = t
	case nil:
		text = "null"
		if !f.null { // null is the same as no key
			delete(r.seen, f.key)
			if f.def == nil {
				if f.when != nil {
					return nil
				}
				return f.wrong("null")
			}
		}
	default:
		return f.wrong(describe(t))
	}
	v, err := f.read(text)
	if err != nil {
		return err
	}
	f.put(r.c, v)
	return nil
}

// labels reads the class names: an object from "0", "1", … to names, in any order.
func (r *configReader) labels() error {
	t, err := r.token()
	if err != nil || t == nil {
		return err
	}
	if t != json.Delim('{') {
		return fmt.Errorf("%s: expected an object, found %s", labelsKey, describe(t))
	}
	names := map[int]string{}
	for {
		key, end, err := r.key(labelsKey)
		if err != nil {
			return err
		}
		if end {
			break
		}
		i, err := strconv.Atoi(strings.TrimPrefix(key, labelsKey+"."))
		if err != nil || i < 0 || labelsKey+"."+strconv.Itoa(i) != key {
			return fmt.Errorf("%s: expected class numbers as keys, found %s", labelsKey, shorten(key[len(labelsKey)+1:]))
		}
		t, err := r.token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return fmt.Errorf("%s: expected a name, found %s", key, describe(t))
		}
		names[i] = name
	}
	list := make([]string, len(names))
	for i := range list {
		name, ok := names[i]
		if !ok {
			return fmt.Errorf("%s: expected the keys 0 to %d, found no %d", labelsKey, len(names)-1, i)
		}
		list[i] = name
	}
	r.c.ID2Label = list
	return nil
}

// skip skips one value of any kind.
func (r *configReader) skip() error {
	for depth := 0; ; {
		t, err := r.token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth > maxNesting {
			return fmt.Errorf("line %d: expected at most %d levels of nesting", r.line(), maxNesting)
		}
		if depth == 0 {
			return nil
		}
	}
}

// describe describes a token, for messages.
func describe(t json.Token) string {
	switch t := t.(type) {
	case json.Delim:
		if t == '{' {
			return "an object"
		}
		return "a list"
	case string:
		return quote(clip(t, maxWord))
	case nil:
		return "null"
	}
	return clip(fmt.Sprint(t), maxWord)
}

// unknownKey returns an error with the nearest known key, preferably of the same section. others are further keys at the
// top of the file.
func unknownKey(key string, others ...string) error {
	section, last := "", key
	if i := strings.LastIndex(key, "."); i >= 0 {
		section, last = key[:i], key[i+1:]
	}
	best, suggestion := 1<<30, ""
	consider := func(s, name, shown string) {
		d := 2 * spell.Distance(last, name)
		if s != section {
			d++ // on equal terms the key is looked for where it stands
		}
		if d < best {
			best, suggestion = d, shown
		}
	}
	for _, f := range fields {
		s, name := f.split()
		if s == section {
			consider(s, name, name)
		} else {
			consider(s, name, f.key)
		}
	}
	if section == "" {
		for _, s := range others {
			consider("", s, s)
		}
	}
	return fmt.Errorf("%s: unknown key, did you mean %s?", shorten(key), suggestion)
}
