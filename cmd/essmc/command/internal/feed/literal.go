package feed

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/essmc/essmc/ir"
	"github.com/essmc/essmc/ir/tensor"
	"github.com/essmc/essmc/runtime"
)

// isLiteral reports whether s is a value and not the name of a file: a number, true, false, a text in quotes, a list,
// or a map. A file named 16000 can be given as ./16000.
func isLiteral(s string) bool {
	if strings.HasPrefix(s, "[") || strings.HasPrefix(s, "{") || strings.HasPrefix(s, `"`) || s == "true" ||
		s == "false" {
		return true
	}
	_, err := strconv.ParseFloat(s, 64)
	return err == nil || errors.Is(err, strconv.ErrRange)
}

// literal parses a value of the port's element type, or maps if the port has keys. A single element fits every shape
// with one element, and a list of texts fits a column of them, since each is a sample.
func literal(s string, p runtime.Port, wide bool) (*tensor.Tensor, error) {
	if p.Keys != "" && strings.HasPrefix(strings.TrimLeft(s, "[ \t\r\n"), "{") {
		return mapRows(s, p, wide)
	}
	typ := p.Type
	if o, ok := typ.(*ir.OptionalType); ok {
		typ = o.Elem
	}
	want, ok := typ.(*ir.TensorType)
	if !ok || want.Elem.IsComplex() {
		return nil, fmt.Errorf("expected %v, which can only be read from a file", p.Type)
	}
	text := want.Elem == tensor.String
	words, shape, err := parseList(s, text)
	if err != nil && text {
		return nil, fmt.Errorf(`expected a text or a list of texts as in ["a","b"] (%v): %w`, p.Type, err)
	}
	if err != nil {
		return nil, fmt.Errorf("expected a number or a list of numbers as in [1,2,3] (%v): %w", p.Type, err)
	}
	t, err := elements(words, shape, want.Elem, wide)
	if err != nil || want.NoRank {
		return t, err
	}
	if to := fitShape(shape, want.Shape, plain); to != nil {
		shape = to
	} else if len(words) == 1 && len(shape) != len(want.Shape) {
		shape = make([]int, len(want.Shape))
		for i := range shape {
			shape[i] = 1
		}
	} else if text && len(shape) == 1 && len(want.Shape) == 2 && want.Shape[1].Equal(ir.Const(1)) {
		shape = []int{len(words), 1}
	}
	if t, err = t.Reshape(shape...); err == nil &&
		!ir.Compatible(ir.Of(t), &ir.TensorType{Elem: t.DType(), Shape: want.Shape}) {
		err = fmt.Errorf("expected %v, found %s", p.Type, t)
	}
	return t, err
}

// parseList parses a number or nested lists of numbers, or of texts. It returns them as text, row by row, and the
// shape.
func parseList(s string, text bool) (words []string, shape []int, err error) {
	if strings.HasPrefix(s, "{") {
		return nil, nil, fmt.Errorf("found %s", clip(s))
	}
	if !strings.HasPrefix(s, "[") && (!text || !strings.HasPrefix(s, `"`)) {
		return []string{s}, []int{}, nil
	}
	v, err := decode(s)
	if err != nil {
		return nil, nil, err
	}
	for level := v; ; {
		list, ok := level.([]any)
		if !ok {
			break
		}
		if shape = append(shape, len(list)); len(list) == 0 {
			break
		}
		level = list[0]
	}
	var walk func(v any, depth int) error
	walk = func(v any, depth int) error {
		list, isList := v.([]any)
		if isList != (depth < len(shape)) || isList && len(list) != shape[depth] {
			return fmt.Errorf("found rows of different lengths in %s", clip(s))
		}
		if !isList {
			switch v := v.(type) {
			case string:
				if !text {
					return fmt.Errorf("found %q in %s", v, clip(s))
				}
				words = append(words, v)
				return nil
			case json.Number:
				words = append(words, v.String())
			case bool:
				words = append(words, strconv.FormatBool(v))
			default:
				return fmt.Errorf("found %v in %s", v, clip(s))
			}
			if text {
				return fmt.Errorf("found %v without quotes in %s", v, clip(s))
			}
			return nil
		}
		for _, x := range list {
			if err := walk(x, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	return words, shape, walk(v, 0)
}

// elements converts numbers from text to a tensor.
func elements(words []string, shape []int, elem tensor.DType, wide bool) (*tensor.Tensor, error) {
	n := len(words)
	switch {
	case elem == tensor.String:
		return tensor.FromStrings(words, shape...), nil
	case elem == tensor.Bool:
		v := make([]bool, n)
		for i, w := range words {
			if v[i] = w == "true"; !v[i] && w != "false" {
				return nil, fmt.Errorf("expected true or false, found %s", w)
			}
		}
		return tensor.FromSlice(v, shape...), nil
	case elem == tensor.Uint64:
		v := make([]uint64, n)
		for i, w := range words {
			var err error
			if v[i], err = strconv.ParseUint(w, 10, 64); err != nil {
				return nil, fmt.Errorf("expected integers (%v), found %s", elem, w)
			}
		}
		return tensor.FromSlice(v, shape...), nil
	case elem.IsInt():
		v := make([]int64, n)
		for i, w := range words {
			var err error
			if v[i], err = strconv.ParseInt(w, 10, 64); err != nil {
				return nil, fmt.Errorf("expected integers (%v), found %s", elem, w)
			}
		}
		t, err := tensor.FromSlice(v, shape...).Convert(elem, false)
		if err != nil {
			return nil, err
		}
		back, err := t.Int64s()
		for i := range back {
			if back[i] != v[i] {
				return nil, fmt.Errorf("expected integers that fit %v, found %s", elem, words[i])
			}
		}
		return t, err
	}
	v := make([]float64, n)
	for i, w := range words {
		var err error
		if v[i], err = strconv.ParseFloat(w, 64); err != nil {
			return nil, fmt.Errorf("expected numbers (%v), found %s", elem, w)
		}
	}
	if wide && elem == tensor.Float32 {
		elem = tensor.Float64
	}
	return tensor.FromFloat64s(elem, v, shape...)
}

// clip truncates a text for messages.
func clip(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
