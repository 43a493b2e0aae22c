package checkpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"github.com/essmc/essmc/frontend/checkpoint/torchfile"
	"github.com/essmc/essmc/models"
	"github.com/essmc/essmc/models/config"
)

// A configuration of any origin is a tree of nil, bool, int64, float64, string, []any and map[string]any.

// Limits on configuration files. The YAML parser is recursive, so its input must be small and flat.
const (
	maxConfigFile = 64 << 10
	maxNesting    = 64
	maxBrackets   = 256
)

// configFile reads a configuration file: a tree of the authors' keys, or a config.json (docs/math.md, Model directory).
func configFile(path string) (any, models.Config, error) {
	ext := strings.ToLower(filepath.Ext(path))
	limit := int64(maxConfigFile)
	if ext == ".json" {
		limit = config.MaxSize
	}
	data, err := readSmall(path, limit)
	if err != nil {
		return nil, nil, err
	}
	var v any
	switch ext {
	case ".yaml", ".yml":
		v, err = parseYAML(data)
	case ".json":
		if parsed, wrong := config.Parse(data); wrong == nil && models.Known(parsed) {
			c, err := models.ConfigOf(parsed, path)
			return nil, c, err
		}
		if len(data) > maxConfigFile {
			return nil, nil, fmt.Errorf("%s: more than %d bytes, and no model_type", path, maxConfigFile)
		}
		v, err = parseJSON(data)
	default:
		err = fmt.Errorf("expected a .yaml or .json file")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return v, nil, nil
}

func parseJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("data after the JSON value")
	}
	return normal(v, 0)
}

// parseYAML reads YAML without anchors, aliases, tags and merge keys. Configurations do not need them, and aliases can
// expand without bound. A panic of the third-party parser becomes an error.
func parseYAML(data []byte) (v any, err error) {
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, fmt.Errorf("the YAML parser failed: %.100q", fmt.Sprint(r))
		}
	}()
	if err := checkFlat(data); err != nil {
		return nil, err
	}
	f, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, yamlError(err)
	}
	if len(f.Docs) != 1 {
		return nil, fmt.Errorf("expected one YAML document, found %d", len(f.Docs))
	}
	if f.Docs[0].Body == nil {
		return nil, errors.New("the YAML document is empty")
	}
	p := &plainYAML{}
	ast.Walk(p, f.Docs[0].Body)
	if p.found != "" {
		return nil, fmt.Errorf("YAML %s are not read", p.found)
	}
	if err := yaml.NodeToValue(f.Docs[0].Body, &v); err != nil {
		return nil, yamlError(err)
	}
	return normal(v, 0)
}

// checkFlat refuses YAML that can nest deeply, before it is parsed: many brackets, or many block indicators on one
// line.
func checkFlat(data []byte) error {
	if bytes.Count(data, []byte("["))+bytes.Count(data, []byte("{")) > maxBrackets {
		return fmt.Errorf("more than %d brackets", maxBrackets)
	}
	for line := range bytes.Lines(data) {
		if bytes.Count(line, []byte("- "))+bytes.Count(line, []byte("? "))+bytes.Count(line,
			[]byte(": ")) > maxNesting {
			return fmt.Errorf("more than %d levels on one line", maxNesting)
		}
	}
	return nil
}

// yamlError keeps the first line of the parser's message, without the excerpt that follows.
func yamlError(err error) error {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return fmt.Errorf("YAML: %.200s", line)
}

// plainYAML finds nodes that are not plain data.
type plainYAML struct{ found string }

func (p *plainYAML) Visit(n ast.Node) ast.Visitor {
	switch n.(type) {
	case *ast.AnchorNode:
		p.found = "anchors"
	case *ast.AliasNode:
		p.found = "aliases"
	case *ast.TagNode:
		p.found = "tags"
	case *ast.MergeKeyNode:
		p.found = "merge keys"
	}
	return p
}

// normal converts the results of the JSON and YAML parsers to the tree's types.
func normal(v any, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nested more than %d deep", maxNesting)
	}
	switch v := v.(type) {
	case nil, bool, int64, float64, string:
		return v, nil
	case json.Number:
		if i, err := v.Int64(); err == nil {
			return i, nil
		}
		return v.Float64()
	case int:
		return int64(v), nil
	case uint64:
		if v > math.MaxInt64 {
			return float64(v), nil
		}
		return int64(v), nil
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			var err error
			if out[i], err = normal(x, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			var err error
			if out[k], err = normal(x, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return fmt.Sprint(v), nil // a date, for instance, becomes text, which no key of a model accepts
}

// fromTorch makes a tree of pickled hyperparameters. Values that are not configuration (tensors, placeholders) do not
// change, and keys of the model refuse them.
func fromTorch(v any) (any, error) {
	switch v := v.(type) {
	case []any:
		return fromItems(v)
	case torchfile.Tuple:
		return fromItems(v)
	case *torchfile.Dict:
		out := make(map[string]any, v.Len())
		for k, x := range v.All() {
			key, ok := k.(string)
			if !ok {
				key = fmt.Sprint(k)
			}
			var err error
			if out[key], err = fromTorch(x); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

func fromItems(items []any) (any, error) {
	out := make([]any, len(items))
	for i, x := range items {
		var err error
		if out[i], err = fromTorch(x); err != nil {
			return nil, err
		}
	}
	return out, nil
}
